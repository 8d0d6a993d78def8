"""The PROXY protocol header that a load balancer may put in front of what the opener says.

Versions 1 and 2 (https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt), as the server takes them
(server/client_proxyproto.go, since 2.12.2). What is no good header is none: then it stands where a frame
should be, and is an error there.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

_V1 = b"PROXY "
_V1_BYTES = 107  # with CR LF
_V2 = b"\r\n\r\n\0\r\nQUIT\n"
_V2_HEAD = len(_V2) + 4
_LOCAL, _PROXY = 0x20, 0x21
_ADDRESS_BYTES = {0x11: 4, 0x21: 16}


class ProxyHeader(NamedTuple):
    """How long the header is, and the `ip:port` it speaks for; none, if it is about the proxy itself."""

    size: int
    source: str | None


def _may_be_proxy(data: bytes) -> bool:
    """Whether the first bytes of a stream are those of a header, as far as they go."""
    return any(data[: len(start)] == start[: len(data)] for start in (_V1, _V2))


def proxy_header(data: bytes) -> ProxyHeader | None:
    """The header that `data` begins with. None if there is none, or not all of it."""
    if data.startswith(_V1):
        end = data.find(b"\r\n", 0, _V1_BYTES)
        return _text(data[:end]) if end > 0 else None
    if data.startswith(_V2) and len(data) >= _V2_HEAD:
        return _binary(data)
    return None


def is_partial(data: bytes) -> bool:
    """Whether a header has begun that more bytes may complete."""
    if not data or not _may_be_proxy(data):
        return False
    if data.startswith(_V1):
        return len(data) < _V1_BYTES and b"\r\n" not in data
    if len(data) < _V2_HEAD:
        return True
    return len(data) < _V2_HEAD + int.from_bytes(data[14:16], "big")


def _text(line: bytes) -> ProxyHeader | None:
    size = len(line) + 2
    match line.split(b" "):
        case [_, b"UNKNOWN", *_]:
            return ProxyHeader(size, None)
        case [_, b"TCP4" | b"TCP6" as family, source, target, source_port, target_port]:
            try:
                address, other = (ip_address(text.decode("ascii")) for text in (source, target))
                ports = [int(port) for port in (source_port, target_port)]
            except ValueError:
                return None
            version = 4 if family == b"TCP4" else 6
            if address.version == other.version == version and max(ports) < 1 << 16:
                return ProxyHeader(size, _endpoint(address, ports[0]))
    return None


def _binary(data: bytes) -> ProxyHeader | None:
    command, family = data[12], data[13]
    length = int.from_bytes(data[14:16], "big")
    size = _V2_HEAD + length
    if command not in (_LOCAL, _PROXY) or len(data) < size:
        return None
    width = _ADDRESS_BYTES.get(family, 0)
    if command == _LOCAL or not width:
        return ProxyHeader(size, None)
    if length < 2 * width + 4:
        return None
    raw = data[_V2_HEAD : _V2_HEAD + width]
    address = IPv4Address(raw) if width == 4 else IPv6Address(raw)
    at = _V2_HEAD + 2 * width
    return ProxyHeader(size, _endpoint(address, int.from_bytes(data[at : at + 2], "big")))


def _endpoint(address: IPv4Address | IPv6Address, port: int) -> str:
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
