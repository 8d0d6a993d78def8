"""A tunnel through an HTTP proxy: the CONNECT request, and the proxy's answer (RFC 9110, 9.3.6)."""

from __future__ import annotations

import errno
from base64 import b64encode
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..options import Server

__all__ = ["Tunnel"]

_MOST_HEAD_BYTES = 16 << 10  # the limit for an answer's head: more than proxies send
_HEAD_END = b"\r\n\r\n"


class Tunnel:
    """The request for a tunnel to `server`, and the proxy's answer. The user information of `proxy` is sent
    as Basic credentials.

    `request` contains the bytes to send. `feed` takes the bytes that the proxy sends. It returns None until
    the answer is complete, then the bytes after the answer, which come from the server. It raises OSError if
    the proxy refuses.
    """

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
        self.request = "\r\n".join([*lines, "", ""]).encode("ascii")
        self._answer = b""

    def feed(self, data: bytes) -> bytes | None:
        """Takes the next bytes from the proxy."""
        self._answer += data
        head, end, rest = self._answer.partition(_HEAD_END)
        status = head.partition(b"\r\n")[0]
        if not end:
            if len(head) > _MOST_HEAD_BYTES or not head.startswith(b"HTTP/"[: len(head)]):
                raise _refused(status)
            return None
        code = status.split(b" ")[1:2]
        if not status.startswith(b"HTTP/") or not code or code[0][:1] != b"2":
            raise _refused(status)
        return rest


def _refused(status: bytes) -> OSError:
    line = status[:80].decode("latin-1")
    return OSError(errno.EPROTO, f"the proxy opened no tunnel, it said {line!r}")
