"""Finds out from the first bytes what a connection carries, before anything is decoded; ports prove nothing.

A server greets with INFO on every kind of connection; only a route's CONNECT may come earlier
(server/route.go: createRoute). So a responder that begins with anything else, and not with a known layer,
does not speak NATS. Bytes that an originator sends before the greeting, like a browser on the wrong port,
prove nothing.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from ..types import Chunk, Direction, Gap, Item
from .layer import Detected, Heads, Layer, Undecided
from .registry import first_layer, layer_of
from .websocket.http_upgrade import HEAD_BYTES, UPGRADE

START = re.compile(
    rb"(?:H?PUB|H?MSG|SUB|UNSUB|RS\+|RS-|RMSG|LS\+|LS-|LMSG|A\+|A-|INFO|CONNECT|-ERR) "
    rb"|(?:PING|PONG|\+OK)\r\n"
)
"""How a frame begins, as real peers write it."""
START_BYTES = len(b"CONNECT ")
CANDIDATE = re.compile(rb"\n(?=%s)" % START.pattern)
"""The line end before a frame."""
FIRST_BYTES = frozenset(bytes([byte]) for byte in b"PHMSURLAIC+-phmsurlaic")
"""The bytes with which an operation may begin; operations are not case-sensitive (server/parser.go:
parse)."""

_INFO = re.compile(rb"INFO[ \t]*\{", re.IGNORECASE)
_CONNECT = re.compile(rb"CONNECT[ \t]*\{", re.IGNORECASE)
# The INFO with which a leafnode chooses its compression, before its CONNECT (server/leafnode.go:
# negotiateLeafCompression). Servers name themselves, but for commands of gateways, which compress nothing.
_CHOICE = re.compile(rb'INFO[ \t]*\{"server_id":""[^\r\n]*"compression":', re.IGNORECASE)
_HTTP = re.compile(
    rb"(?:[A-Z]{3,7} [^ \r\n]{1,8000} HTTP/1\.[01]\r\n|HTTP/1\.[01] [1-5][0-9][0-9][ \r])"
)

# A connection that has not proven to carry NATS after this much (bytes, and `_ITEM_BYTES` for each item) is
# taken for something else. More is allowed if the first bytes were not captured.
_FRESH_BYTES = 64 << 10
_MIDSTREAM_BYTES = 4 << 20
_ITEM_BYTES = 400  # memory of a held packet or gap in addition to its bytes


class Verdict(Enum):
    """Whether a connection carries NATS."""

    UNDECIDED = auto()
    NATS = auto()
    OTHER = auto()


class Detection(Enum):
    """What the first bytes of the stack's plaintext show."""

    WAIT = auto()  # more bytes are needed
    NATS = auto()
    SWAPPED = auto()  # NATS, and the responder is the side that was taken for the originator
    OTHER = auto()


def detect(originator: bytes, responder: bytes, midstream: bool) -> Detection:
    """Judges a connection by the first bytes of both sides (empty: none were seen, or not the first ones).

    With `midstream`, the originator is a guess: the side that was seen first.
    """
    if _is_opener(originator) or (_INFO.match(responder) and not _is_opener(responder)):
        return Detection.NATS
    if _INFO.match(originator) or _is_opener(responder):
        return Detection.SWAPPED if midstream else Detection.NATS
    if responder and not midstream and not b"INFO".startswith(responder[:4].upper()):
        return Detection.OTHER
    return Detection.WAIT


def _is_opener(head: bytes) -> bool:
    """Whether these are the first bytes of the side that opened the connection."""
    return bool(_CONNECT.match(head) or _CHOICE.match(head))


def greets(head: bytes) -> bool:
    """Whether a stream begins with a handshake frame."""
    return bool(_INFO.match(head) or _CONNECT.match(head))


def may_begin_nats(head: bytes) -> bool:
    """Whether the first bytes of an originator may be a frame."""
    if len(head) < START_BYTES:
        return head[:1].isalpha()
    return bool(START.match(head) or _CONNECT.match(head))


def is_http(packet: bytes) -> bool:
    """Whether a packet begins with the first line of an HTTP request or response, except for WebSocket."""
    return _HTTP.match(packet) is not None and not UPGRADE.search(packet)


_NO_DIRECTION: frozenset[Direction] = frozenset()
_NO_LAYER: frozenset[str] = frozenset()


class FirstBytes:
    """The first bytes of both directions, in the plaintext of the top layer of the stack."""

    def __init__(self, midstream: bool) -> None:
        self._midstream = midstream
        self._heads = {Direction.ORIGINATOR: b"", Direction.RESPONDER: b""}
        self._headless = _NO_DIRECTION  # directions with a gap
        self._names: dict[str, None] = {}  # layers with which packets begin
        self._begun = _NO_LAYER  # layers that took bytes
        self._seen_bytes = 0

    def add(self, direction: Direction, item: Item) -> bool:
        """Takes the next item; returns whether it adds to the first bytes."""
        self._seen_bytes += _ITEM_BYTES
        if isinstance(item, Gap):
            self._headless |= {direction}
        if not isinstance(item, Chunk):
            return False
        self._seen_bytes += len(item.data)
        layer = layer_of(item.data) if self.joined_late(direction) else None
        if layer:
            self._names[layer.name] = None
        head = self._heads[direction]
        if len(head) >= HEAD_BYTES or direction in self._headless:
            return False
        self._heads[direction] = head + item.data[:HEAD_BYTES]
        return True

    def head(self, direction: Direction) -> bytes:
        """The first bytes of one direction."""
        return self._heads[direction]

    def joined_late(self, direction: Direction) -> bool:
        """Whether first bytes of a direction may be missing in the capture."""
        return self._midstream or direction in self._headless

    @property
    def is_too_much(self) -> bool:
        """Whether NATS would have shown itself by now."""
        late = self._midstream or self._headless
        return self._seen_bytes > (_MIDSTREAM_BYTES if late else _FRESH_BYTES)

    def nats(self) -> Detection:
        """Whether the first bytes are those of NATS."""
        return detect(*self._both, self._midstream)

    def layer(self) -> Detected | Undecided | None:
        """The layer with which the connection begins, except for layers that already took bytes."""
        return first_layer(Heads(*self._both, self._midstream), self._begun)

    def late_layer(self, direction: Direction, chunk: Chunk) -> Detected | Undecided | None:
        """The layer with which the first chunk of a direction begins, when the connection is already known to
        carry NATS."""
        heads = Heads(b"", chunk.data, self._midstream)
        if direction is Direction.ORIGINATOR:
            heads = Heads(chunk.data, b"", self._midstream)
        return first_layer(heads, self._begun)

    def protocol(self) -> str:
        """The name of the first layer of a connection that shows no NATS; `other` if no layer is known."""
        found = first_layer(Heads(*self._both, self._midstream, True), self._begun)
        if isinstance(found, Detected):
            return found.layer.name
        return next(iter(self._names), "other")

    def restart(self, direction: Direction, layer: Layer) -> None:
        """Starts again with the plaintext of a layer that took the bytes of a direction."""
        self._begun |= {layer.name}
        self._heads[direction] = b""
        self._headless -= {direction}

    def clear(self) -> None:
        """Frees the memory of the first bytes, when they are no longer needed."""
        self._heads = {direction: b"" for direction in Direction}

    def swap_roles(self) -> None:
        """Exchanges originator and responder."""
        originator, responder = self._both
        self._heads = {Direction.ORIGINATOR: responder, Direction.RESPONDER: originator}
        self._headless = frozenset(direction.other for direction in self._headless)

    @property
    def _both(self) -> tuple[bytes, bytes]:
        return self._heads[Direction.ORIGINATOR], self._heads[Direction.RESPONDER]
