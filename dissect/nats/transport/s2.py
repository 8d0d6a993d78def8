"""S2: the compression of routes and leafnodes after both sides' first INFO (since server 2.10).

Every flush of the server begins with the stream identifier (server/client.go: flushOutbound), so that S2 is
also detected in the middle of a stream. It is not decompressed: its bytes are opaque.
"""

from __future__ import annotations

from .layer import Column, Layer, begins_nothing

_IDENTIFIER = b"\xff\x06\x00\x00S2sTwO"


def _replaces(data: bytes, frames: int) -> bool:
    return data[: len(_IDENTIFIER)] == _IDENTIFIER[: len(data)]


def _resumes(packet: bytes) -> bool:
    return packet.startswith(_IDENTIFIER)


LAYER = Layer("s2", Column.COMPRESSION, begins_nothing, _replaces, _resumes, implies_nats=True)
