"""HTTP `CONNECT`: a proxy that opens a connection to the server, and then passes on all bytes.

Clients do so, and leafnodes (server/leafnode.go: establishHTTPProxyTunnel, since 2.12); RFC 9110 (9.3.6). A
refused request may be repeated on the same connection with credentials, and a proxy may be asked for the
next one. Credentials are never kept, only how they were sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..schema.records import text_of
from ..secrets.redact import NO_SECRETS, Secrets
from ..types import Direction
from .handshake import HandshakeTransform
from .layer import Begins, Heads, Layer, LayerColumn, LayerOptions, Transform
from .websocket.http_upgrade import HEAD_END, header, request_secrets

_CONNECT = b"CONNECT "
_RESPONSE_BEGINS = b"HTTP/1."
_REQUEST = re.compile(rb"CONNECT ((?:[\w.-]{1,255}|\[[\w.:%-]{2,99}\]):\d{1,5}) HTTP/1\.[01]\r\n")
_MOST_LINE = 300  # bytes of the first line of a request
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)([^\r\n]{0,200})\r\n")
# What nearly all proxies answer. It is known without the request, if that was not captured.
_ESTABLISHED = (
    b"http/1.1 200 connection established\r\n",
    b"http/1.0 200 connection established\r\n",
)
_LENGTH = re.compile(rb"\d{1,12}")
_LAST_CHUNK = b"\r\n0\r\n\r\n"  # of a body in the transfer coding `chunked`
_SCHEMES = frozenset({"basic", "bearer", "digest", "negotiate", "ntlm"})


def begins_request(data: bytes) -> Begins:
    """Whether a stream begins with a CONNECT of HTTP. That of NATS has an object in place of a target."""
    if _REQUEST.match(data):
        return Begins.YES
    is_line = data.startswith(_CONNECT) and b"\n" not in data and len(data) <= _MOST_LINE
    if is_line and data[len(_CONNECT) : len(_CONNECT) + 1] not in (b"{", b" ", b"\t"):
        return Begins.MAYBE
    return Begins.MAYBE if _CONNECT.startswith(data) else Begins.NO


def begins_answer(data: bytes) -> Begins:
    """Whether a stream begins with the answer that nearly all proxies give."""
    head = data[: len(_ESTABLISHED[0])].lower()
    if head in _ESTABLISHED:
        return Begins.YES
    return Begins.MAYBE if any(line.startswith(head) for line in _ESTABLISHED) else Begins.NO


@dataclass(slots=True)
class Tunnel:
    """What both directions know: the latest target, the secrets in the latest request, and the number of
    messages of each side."""

    target: str = ""
    secrets: Secrets = NO_SECRETS
    requests: int = 0
    answers: int = 0


class ConnectRequests(HandshakeTransform):
    """Reads the requests of the originator."""

    def __init__(self, tunnel: Tunnel) -> None:
        super().__init__()
        self._tunnel = tunnel

    def message(self, data: bytes) -> int | None:
        """Reads a request."""
        begins = begins_request(data)
        if begins is not Begins.YES:
            return 0 if begins is Begins.MAYBE else None
        end = data.find(HEAD_END)
        if end < 0:
            return 0
        head = data[: end + len(HEAD_END)]
        found = _REQUEST.match(head)
        assert found
        tunnel = self._tunnel
        tunnel.target, tunnel.requests = text_of(found[1]), tunnel.requests + 1
        tunnel.secrets = request_secrets(head)
        self.facts["proxied_to"] = tunnel.target
        credentials = text_of(header(head, b"Proxy-Authorization"))
        if credentials:
            scheme = credentials.partition(" ")[0].lower()
            self.facts["proxy_auth"] = scheme if scheme in _SCHEMES else "other"
        return len(head)


class ConnectAnswers(HandshakeTransform):
    """Reads the answers of the proxy."""

    def __init__(self, tunnel: Tunnel) -> None:
        super().__init__()
        self._tunnel = tunnel
        self._is_open = False  # whether the latest request was accepted
        # Bytes that are left of the body of a refusal; None: it is in chunks.
        self._body: int | None = 0

    def message(self, data: bytes) -> int | None:
        """Reads an answer, or a part of its body."""
        if self._body:
            size = min(self._body, len(data))
            self._body -= size
            return size
        if self._body is None:
            return self._chunks_of_body(data)
        if self._is_open and self._tunnel.requests <= self._tunnel.answers:
            return None
        if not (data.startswith(_RESPONSE_BEGINS) or _RESPONSE_BEGINS.startswith(data)):
            return None
        end = data.find(HEAD_END)
        if end < 0:
            return 0
        head = data[: end + len(HEAD_END)]
        return len(head) if self._take_head(head) else None

    def _take_head(self, head: bytes) -> bool:
        """Reads the head of an answer; returns whether it is one."""
        found = _STATUS.match(head)
        if not found:
            return False
        kind = found[1][:1]
        if kind == b"1":
            return True
        self._tunnel.answers += 1
        self._is_open = kind == b"2"
        if not self._is_open:
            status = self._tunnel.secrets.masked(text_of(found[1] + found[2]))
            self.refuse(f"CONNECT {self._tunnel.target}: {status}".rstrip())
            length = header(head, b"Content-Length")
            is_chunked = b"chunked" in header(head, b"Transfer-Encoding").lower()
            size = int(length) if _LENGTH.fullmatch(length) else 0
            self._body = None if is_chunked else size
        return True

    def _chunks_of_body(self, data: bytes) -> int:
        end = data.find(_LAST_CHUNK)
        if end < 0:
            return max(len(data) - len(_LAST_CHUNK) + 1, 0)
        self._body = 0
        return end + len(_LAST_CHUNK)


def _begins(heads: Heads) -> Begins:
    if heads.originator:
        return begins_request(heads.originator)
    return begins_answer(heads.responder) if heads.responder else Begins.NO


def _transforms(options: LayerOptions) -> Mapping[Direction, Transform]:
    tunnel = Tunnel()
    return {
        Direction.ORIGINATOR: ConnectRequests(tunnel),
        Direction.RESPONDER: ConnectAnswers(tunnel),
    }


LAYER = Layer("http_connect", LayerColumn.NONE, _begins, transforms=_transforms)
