"""TLS: before the first NATS byte, or in place of CONNECT after the server's clear INFO.

TLS is detected by its record headers (RFC 8446, 5.1; RFC 5246, 6.2.1) and not decrypted: its bytes are
opaque, and a connection that begins with TLS shows no NATS.
"""

from __future__ import annotations

import re

from .layer import Column, Found, Heads, Layer

_RECORD = re.compile(rb"[\x14-\x17]\x03[\x00-\x04][\x00-\x48]", re.DOTALL)
_CONTENT_TYPES = frozenset(range(20, 24))


def _begins(heads: Heads) -> Found | None:
    seen = [head for head in (heads.originator, heads.responder) if head]
    if len(seen) < 2 and not heads.final:  # the server's INFO may still come
        return None
    return Found(LAYER) if seen and all(map(_RECORD.match, seen)) else None


def _replaces(data: bytes, frames: int) -> bool:
    """The server's INFO is the only frame before TLS. Its first byte alone is enough: no frame begins so."""
    return frames <= 1 and data[0] in _CONTENT_TYPES and data[1:2] in (b"\x03", b"")


def _resumes(packet: bytes) -> bool:
    """Whether the packet begins with a record, and every record in it is followed by another."""
    at = 0
    while _RECORD.match(packet, at):
        at += 5 + int.from_bytes(packet[at + 3 : at + 5], "big")
        if at >= len(packet) - 4:
            return True
    return False


LAYER = Layer("tls", Column.TRANSPORT, _begins, _replaces, _resumes)
