"""SOCKS5 (RFC 1928, RFC 1929), SOCKS4 and SOCKS4a: a proxy that opens a connection to the server, and then
passes on all bytes. Names and passwords are never kept, only that they were sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from ..schema.records import text_of
from ..types import Direction
from .handshake import HandshakeTransform
from .layer import Begins, Heads, Layer, LayerColumn, LayerOptions, Transform

# The first byte of a message; that of a login is the version of RFC 1929.
_V4, _V5, _LOGIN = 4, 5, 1
_CONNECT = 1
_NO_METHOD = 0xFF
_PASSWORD = 2
_GRANTED_V4 = 90
_HEAD_V4 = 8  # bytes of an answer, and of a request before its names
_MOST_NAME = 256  # bytes of a name in SOCKS4, with the zero byte after it
_REFUSALS = {
    1: "general failure",
    2: "not allowed",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
    91: "rejected or failed",
    92: "no identd of the client",
    93: "identd names another user",
}


@dataclass(slots=True)
class SocksTunnel:
    """What both directions know: the target, and the method that the proxy chose."""

    target: str = ""
    method: int | None = None


class SocksRequests(HandshakeTransform):
    """Reads what the originator sends: its methods, a login, and the request."""

    def __init__(self, tunnel: SocksTunnel) -> None:
        super().__init__()
        self._tunnel = tunnel
        self._is_first = True
        self._has_login = False
        self._is_over = False  # whether the request was read

    def message(self, data: bytes) -> int | None:
        """Reads a message; its first byte tells which one it is."""
        if self._is_over:
            return None
        if self._is_first:
            size = _methods_size(data) if data[0] == _V5 else self._ask(_request_v4(data))
            self._is_first = not size
            return size
        if data[0] == _LOGIN and self._tunnel.method in (None, _PASSWORD) and not self._has_login:
            return self._login(data)
        return self._ask(_addressed(data)) if data[0] == _V5 else None

    def _login(self, data: bytes) -> int:
        name = data[1] if len(data) > 1 else 0
        size = 3 + name + data[2 + name] if len(data) > 2 + name else 0
        if not size or len(data) < size:
            return 0
        self._has_login = True
        self.facts["proxy_auth"] = "password"
        return size

    def _ask(self, request: tuple[int, str] | None) -> int | None:
        if request is None:
            return None
        size, target = request
        if size:
            self._is_over = True
            self._tunnel.target = self.facts["proxied_to"] = target
        return size


class SocksAnswers(HandshakeTransform):
    """Reads the answers of the proxy: the chosen method, the answer to a login, and that to the request."""

    def __init__(self, tunnel: SocksTunnel) -> None:
        super().__init__()
        self._tunnel = tunnel
        self._has_login = False  # whether a login was answered
        self._is_over = False

    def message(self, data: bytes) -> int | None:
        """Reads an answer."""
        if self._is_over or data[0] not in (0, _LOGIN, _V5):
            return None
        if len(data) < 2:
            return 0
        tunnel = self._tunnel
        if data[0] == 0:
            return self._end(_HEAD_V4, data, data[1] == _GRANTED_V4)
        if tunnel.method is None:
            tunnel.method = data[1]
            if data[1] == _NO_METHOD:
                self.refuse("SOCKS: no acceptable method")
            return 2
        if data[0] == _LOGIN:
            if tunnel.method != _PASSWORD or self._has_login:
                return None
            self._has_login = True
            if data[1]:
                self.refuse("SOCKS: login refused")
            return 2
        found = _addressed(data)
        return found if found is None else self._end(found[0], data, not data[1])

    def _end(self, size: int, data: bytes, is_granted: bool) -> int:
        if not size or len(data) < size:
            return 0
        self._is_over = True
        if not is_granted:
            reason = f"{data[1]} {_REFUSALS.get(data[1], '')}".rstrip()
            self.refuse(f"SOCKS {self._tunnel.target}: {reason}")
        return size


def _methods_size(data: bytes) -> int | None:
    """The size of the methods that a client offers."""
    if len(data) < 2:
        return 0
    size = 2 + data[1]
    if not data[1]:
        return None
    return size if len(data) >= size else 0


def _addressed(data: bytes) -> tuple[int, str] | None:
    """The size and the address of a request or an answer of SOCKS5; the size is 0 if it is incomplete. None:
    its kind of address is not known."""
    if len(data) < 5:
        return 0, ""
    at, width = 4, {1: 4, 4: 16}.get(data[3], 0)
    if data[3] == 3:
        at, width = 5, data[4]
    if not width:
        return None
    size = at + width + 2
    if len(data) < size:
        return 0, ""
    raw, port = data[at : at + width], int.from_bytes(data[at + width : size], "big")
    if data[3] == 3:
        return size, f"{text_of(raw)}:{port}"
    return size, f"{IPv4Address(raw)}:{port}" if width == 4 else f"[{IPv6Address(raw)}]:{port}"


def _request_v4(data: bytes) -> tuple[int, str] | None:
    """The size and the target of a request of SOCKS4; the size is 0 if it is incomplete. In SOCKS4a, the
    address 0.0.0.x stands for a name at the end."""
    if not bytes([_V4, _CONNECT]).startswith(data[:2]):
        return None
    size = _after_name(data, _HEAD_V4) if len(data) > _HEAD_V4 else 0
    if not size:
        return None if size is None else (0, "")
    port, host = int.from_bytes(data[2:4], "big"), str(IPv4Address(data[4:8]))
    if data[4:7] == bytes(3) and data[7]:
        end = _after_name(data, size)
        if not end:
            return None if end is None else (0, "")
        size, host = end, text_of(data[size : end - 1])
    return size, f"{host}:{port}"


def _after_name(data: bytes, start: int) -> int | None:
    """Where the name ends that begins at `start`; 0 if it is incomplete, None if it is too long."""
    end = data.find(b"\0", start, start + _MOST_NAME) + 1
    return None if not end and len(data) >= start + _MOST_NAME else end


def _begins(heads: Heads) -> Begins:
    asked, answer = heads.originator, heads.responder
    match asked[:1]:
        case b"\x05":
            size = _methods_size(asked)
            answers = {bytes([_V5, method]) for method in (*asked[2 : size or 0], _NO_METHOD)}
        case b"\x04":
            request = _request_v4(asked)
            size = request if request is None else request[0]
            answers = {bytes([0, code]) for code in range(_GRANTED_V4, _GRANTED_V4 + 4)}
        case _:
            return Begins.NO
    if size and answer[:2] in answers:
        return Begins.YES
    may_come = any(each.startswith(answer[:2]) for each in answers)
    if size is None or size and not may_come or heads.final:
        return Begins.NO
    return Begins.MAYBE


def _transforms(options: LayerOptions) -> Mapping[Direction, Transform]:
    tunnel = SocksTunnel()
    return {
        Direction.ORIGINATOR: SocksRequests(tunnel),
        Direction.RESPONDER: SocksAnswers(tunnel),
    }


LAYER = Layer("socks", LayerColumn.NONE, _begins, transforms=_transforms)
