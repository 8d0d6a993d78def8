"""The HTTP requests that may come before NATS: for a tunnel through a proxy (RFC 9110, 9.3.6), and for the
upgrade to a WebSocket (RFC 6455). Most programs need neither."""

from __future__ import annotations

import errno
import os
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..protocol.websocket import accept_key

if TYPE_CHECKING:
    from ..options import Server

__all__ = ["HTTPRequest", "Tunnel", "Upgrade"]

MOST_HEAD_BYTES = (
    16 << 10
)  # the limit for the head of an answer: more than servers and proxies send
_HEAD_END = b"\r\n\r\n"


class HTTPRequest:
    """A request, and its answer. `request` contains the bytes to send."""

    def __init__(self, lines: list[str], refusal: str) -> None:
        self.request = "\r\n".join([*lines, "", ""]).encode("ascii")
        self._refusal = refusal
        self._answer = b""

    def feed(self, data: bytes) -> bytes | None:
        """Takes the next bytes of the answer. Returns None until its head is complete, then the bytes after
        it. Raises OSError for a refusal."""
        self._answer += data
        head, end, rest = self._answer.partition(_HEAD_END)
        status, *lines = head.split(b"\r\n")
        if not end:
            if len(head) > MOST_HEAD_BYTES or not head.startswith(b"HTTP/"[: len(head)]):
                raise self._refused(status)
            return None
        self._check(status, lines, rest)
        return rest

    def _check(self, status: bytes, lines: list[bytes], rest: bytes) -> None:
        """Raises OSError if the answer is a refusal."""
        raise NotImplementedError

    def _refused(self, status: bytes, hint: str = "") -> OSError:
        line = status[:80].decode("latin-1")
        return OSError(errno.EPROTO, f"{self._refusal}, it said {line!r}{hint}")


class Tunnel(HTTPRequest):
    """The request for a tunnel to `server`. The user information of `proxy` is sent as Basic credentials."""

    def __init__(self, proxy: Server, server: Server) -> None:
        try:
            place = str(server.replace(host=server.host.encode("idna").decode()))
        except UnicodeError:  # an empty label, one of over 63 bytes, a character no name has
            raise OSError(errno.EINVAL, f"{server.host!r} is not a host name") from None
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
        name, secret = proxy.user or proxy.token, proxy.password
        if name or secret:
            login = b64encode(f"{name}:{secret}".encode()).decode()
            lines.append(f"Proxy-Authorization: Basic {login}")
        super().__init__(lines, "the proxy opened no tunnel")

    def _check(self, status: bytes, lines: list[bytes], rest: bytes) -> None:
        code = status.split(b" ")[1:2]
        if not status.startswith(b"HTTP/") or not code or code[0][:1] != b"2":
            raise self._refused(status)


class Upgrade(HTTPRequest):
    """The request that upgrades a connection to a WebSocket. `headers` are added to it; a `Host` among them
    replaces `host`."""

    def __init__(self, host: str, path: str, headers: Mapping[str, str], compresses: bool) -> None:
        self.compresses = False
        """Whether both sides want permessage-deflate; known after the answer."""

        self._key = b64encode(os.urandom(16)).decode()
        fields = {
            "host" if name.lower() == "host" else name: value for name, value in headers.items()
        }
        lines = [
            f"GET {path} HTTP/1.1",
            "Host: " + fields.pop("host", host),
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {self._key}",
            "Sec-WebSocket-Version: 13",
        ]
        if compresses:
            parameters = "; server_no_context_takeover; client_no_context_takeover"
            lines.append(f"Sec-WebSocket-Extensions: permessage-deflate{parameters}")
        super().__init__(
            [*lines, *map(": ".join, fields.items())], "the server did not open a WebSocket"
        )

    def _check(self, status: bytes, lines: list[bytes], rest: bytes) -> None:
        if status.split(b" ")[1:2] != [b"101"]:
            # As in the pages of Go and nginx.
            raise self._refused(status, "; it expects wss://" if b"HTTPS" in rest else "")
        fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.decode("latin-1").partition(":") for line in lines)
        }
        if fields.get("sec-websocket-accept") != accept_key(self._key):
            raise OSError(errno.EPROTO, "the server's answer to the WebSocket key is wrong")
        self.compresses = "permessage-deflate" in fields.get("sec-websocket-extensions", "")
