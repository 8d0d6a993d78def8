"""What the first bytes of both directions say about a connection; ports say nothing.

A server greets with INFO on every kind of connection that is not inside TLS or WebSocket; only a route's
CONNECT may be there earlier (server/route.go: createRoute). So a responder whose first bytes are anything
else speaks no NATS. A WebSocket carries NATS if its path or protocol says so, or the first frame does.
What is said before the greeting, as by a browser that was sent to the wrong port, decides nothing.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from enum import Enum, auto

from natsync.protocol import Kind

from ..types import Chunk, Item
from .proxy import is_partial, proxy_header

START = re.compile(
    rb"(?:H?PUB|H?MSG|SUB|UNSUB|RS\+|RS-|RMSG|LS\+|LS-|LMSG|A\+|A-|INFO|CONNECT|-ERR) "
    rb"|(?:PING|PONG|\+OK)\r\n"
)
"""How a frame begins, as real peers write it."""
START_BYTES = len(b"CONNECT ")
CANDIDATE = re.compile(rb"\n(?=%s)" % START.pattern)
"""The end of the line before one."""

_TLS_RECORDS = frozenset(range(20, 24))
HEAD_BYTES = 16 << 10
S2_MAGIC = b"\xff\x06\x00\x00S2sTwO"

_INFO = re.compile(rb"INFO[ \t]*\{", re.IGNORECASE)
_CONNECT = re.compile(rb"CONNECT[ \t]*\{", re.IGNORECASE)
_UPGRADE = re.compile(rb"\r\nUpgrade:[ \t]*websocket", re.IGNORECASE)
_HTTP = re.compile(
    rb"(?:[A-Z]{3,7} [^ \r\n]{1,8000} HTTP/1\.[01]\r\n|HTTP/1\.[01] [1-5][0-9][0-9][ \r])"
)
_TLS = re.compile(rb"[\x14-\x17]\x03[\x00-\x04][\x00-\x48]", re.DOTALL)
_OP_BYTES = len(b"CONNECT ")
_NATS_HEADER = re.compile(rb"\r\n(?:Sec-WebSocket-Protocol:[^\r]*nats|Nats-)", re.IGNORECASE)


class Verdict(Enum):
    """Whether a connection carries NATS."""

    OPEN = auto()
    NATS = auto()
    OTHER = auto()


class Detection(Enum):
    """What a connection turned out to be."""

    WAIT = auto()  # not enough seen
    NATS = auto()
    TURNED = auto()  # NATS, and the responder is who was taken for the originator
    WEBSOCKET = auto()  # NATS in WebSocket
    OTHER = auto()


def detect(originator: bytes, responder: bytes, midstream: bool) -> Detection:
    """Judges by the first bytes of both sides (empty: none seen, or not the first).

    With `midstream` the originator is only who was seen first.
    """
    if is_partial(originator):
        return Detection.NATS if _INFO.match(responder) else Detection.WAIT
    header = proxy_header(originator)
    if header:
        originator = originator[header.size :]
    if _INFO.match(responder) or _CONNECT.match(originator):
        return Detection.NATS
    if _INFO.match(originator) or _CONNECT.match(responder):
        return Detection.TURNED if midstream else Detection.NATS
    if originator.startswith(S2_MAGIC) or responder.startswith(S2_MAGIC):
        return Detection.NATS
    if originator.startswith(b"GET "):
        return _websocket(originator, responder)
    if responder and not midstream and not b"INFO".startswith(responder[:4].upper()):
        return Detection.OTHER
    return Detection.WAIT


def greets(head: bytes) -> bool:
    """Whether a stream's first bytes are those of a handshake, or of a PROXY header before it."""
    return bool(_INFO.match(head) or _CONNECT.match(head) or proxy_header(head))


def may_open(head: bytes) -> bool:
    """Whether an originator's first bytes, behind a PROXY header, may be NATS in the clear."""
    if len(head) < _OP_BYTES:
        return is_partial(head) or head[:1].isalpha()
    return bool(START.match(head) or _CONNECT.match(head) or proxy_header(head) or is_partial(head))


def new_layer(pieces: Sequence[bytes], frames: int) -> str:
    """What begins with these bytes instead of a frame, if it is something that may follow an INFO; `frames`
    is how many were before."""
    data = b"".join(pieces[: len(S2_MAGIC)])
    if not data:
        return ""
    if data[: len(S2_MAGIC)] == S2_MAGIC[: len(data)]:
        return "s2"
    if frames <= 1 and data[0] in _TLS_RECORDS and data[1:2] in (b"\x03", b""):
        return "tls"
    return ""


def is_s2(item: Item) -> bool:
    """Whether these are the first bytes of an S2 stream."""
    return isinstance(item, Chunk) and item.data.startswith(S2_MAGIC)


def is_http(head: bytes) -> bool:
    """Whether a packet begins with the first line of a request or of a response, but of no WebSocket."""
    return _HTTP.match(head) is not None and not _UPGRADE.search(head)


def protocol_of(originator: bytes, responder: bytes) -> str:
    """What a connection that carries no NATS seems to be, by the first bytes of both sides."""
    if originator.startswith(b"GET ") and _UPGRADE.search(originator):
        return "websocket" if responder.startswith(b"HTTP/1.1 101") else "other"
    heads = [head for head in (originator, responder) if head]
    return "tls" if heads and all(map(_TLS.match, heads)) else "other"


def websocket_kind(request: bytes) -> Kind:
    """The kind of NATS connection that a WebSocket request asks for (server/websocket.go)."""
    return Kind.LEAFNODE if _path(request).endswith(b"/leafnode") else Kind.CLIENT


def _websocket(request: bytes, response: bytes) -> Detection:
    if b"\r\n\r\n" not in request and len(request) < HEAD_BYTES:
        return Detection.WAIT
    if not response:
        return Detection.WAIT
    if not _UPGRADE.search(request) or _path(request).endswith(b"/mqtt"):
        return Detection.OTHER
    if not response.startswith(b"HTTP/1.1 101"[: len(response)]):
        return Detection.OTHER
    head, end, frame = response.partition(b"\r\n\r\n")
    if _path(request).endswith(b"/leafnode") or _NATS_HEADER.search(head):
        return Detection.WEBSOCKET
    if len(response) < HEAD_BYTES and (not end or len(frame) < 16):
        return Detection.WAIT
    return Detection.WEBSOCKET if _INFO.match(_payload(frame)) else Detection.OTHER


def _path(request: bytes) -> bytes:
    return request.split(b" ", 2)[1] if request.count(b" ") >= 2 else b""


def _payload(frame: bytes) -> bytes:
    """The first bytes inside an unmasked WebSocket frame (RFC 6455, 7692)."""
    size = {126: 4, 127: 10}.get(frame[1] & 127, 2) if len(frame) > 1 else 2
    data = frame[size:]
    if frame[:1] >= b"\xc0":
        try:
            return zlib.decompressobj(-15).decompress(data, 16)
        except zlib.error:
            return b""
    return data
