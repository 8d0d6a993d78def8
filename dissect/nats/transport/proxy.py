"""The PROXY protocol header that a load balancer may put before the originator's first byte.

Versions 1 and 2 (https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt), as the server accepts them
(server/client_proxyproto.go, since 2.12.2). A malformed header is passed on like any other bytes, so that
framing reports an error where a frame should be.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from ..schema.records import Value
from ..types import Chunk, Direction, Item
from .layer import Begins, Heads, Layer, LayerBytes, LayerColumn, LayerOptions, Transform, rest_of

_V1 = b"PROXY "
_V1_BYTES = 107  # with CR LF
_V2 = b"\r\n\r\n\0\r\nQUIT\n"
_V2_HEAD = len(_V2) + 4
_LOCAL, _PROXY = 0x20, 0x21
_ADDRESS_BYTES = {
    0x01: 0,
    0x11: 4,
    0x21: 16,
}  # the server accepts only streams, and no Unix sockets


class ProxyHeader(NamedTuple):
    """The size of a header in bytes, and the `ip:port` of the client; None if the header names no client."""

    size: int
    source: str | None


def _may_be_proxy(data: bytes | bytearray) -> bool:
    """Whether the first bytes of a stream may begin a header."""
    return any(data[: len(start)] == start[: len(data)] for start in (_V1, _V2))


def proxy_header(data: bytes) -> ProxyHeader | None:
    """The header with which `data` begins; None if there is none, or if it is incomplete or malformed."""
    if data.startswith(_V1):
        end = data.find(b"\r\n", 0, _V1_BYTES)
        return _text(data[:end]) if end > 0 else None
    if data.startswith(_V2) and len(data) >= _V2_HEAD:
        return _binary(data)
    return None


def is_partial(data: bytes | bytearray) -> bool:
    """Whether `data` is the beginning of a header that is not complete yet."""
    if not data or not _may_be_proxy(data):
        return False
    if data.startswith(_V1):
        return len(data) < _V1_BYTES and b"\r\n" not in data
    if len(data) < _V2_HEAD:
        return True
    return len(data) < _V2_HEAD + int.from_bytes(data[14:16], "big")


class ProxyTransform:
    """Removes the header from the originator's stream. The bytes after it keep their offsets, so the
    transform is done after the header.
    """

    opaque = False

    def __init__(self) -> None:
        self.counts = LayerBytes()
        self.facts: dict[str, Value] = {}
        """`proxied_for`: the `ip:port` of the client for which the proxy speaks."""

        self.done = False
        self._head = bytearray()
        self._held: list[Chunk] = []

    def feed(self, item: Item) -> list[Item]:
        """Holds chunks until the header is complete, or refuted."""
        if not isinstance(item, Chunk):
            return [*self.finish(), item]
        self._held.append(item)
        self._head += item.data
        if is_partial(self._head):
            return []
        header = proxy_header(bytes(self._head))
        if header:
            self.facts = {"proxied_for": header.source}
            self.counts.overhead = header.size
            end = self._held[0].offset + header.size
            later = [chunk for chunk in self._held if chunk.offset + len(chunk.data) > end]
            self._held = [rest_of(chunk, end) for chunk in later]
        return self.finish()

    def resume(self) -> list[Item]:
        """Returns nothing: the header does not depend on the other direction."""
        return []

    def finish(self) -> list[Item]:
        """Passes on the held bytes: they are not a header, or come after it."""
        self.done = True
        held, self._held = self._held, []
        return list(held)


def _begins(heads: Heads) -> Begins:
    head = heads.originator
    if proxy_header(head) or is_partial(head) and not heads.midstream:
        return Begins.YES
    return Begins.NO


def _transforms(options: LayerOptions) -> Mapping[Direction, Transform]:
    return {Direction.ORIGINATOR: ProxyTransform()}


LAYER = Layer("proxy", LayerColumn.NONE, _begins, transforms=_transforms)


def _text(line: bytes) -> ProxyHeader | None:
    size = len(line) + 2
    match line.split():
        case [_, b"UNKNOWN", *_]:
            return ProxyHeader(size, None)
        case [_, b"TCP4" | b"TCP6" as family, source, target, source_port, target_port]:
            if b"%" in source + target or not (source_port + target_port).isdigit():
                return None  # `ip_address` takes zones, and `int` takes signs and underscores
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
    width = 0 if command == _LOCAL else _ADDRESS_BYTES.get(family)
    if width == 0:
        return ProxyHeader(size, None)
    if width is None or length < 2 * width + 4:
        return None
    raw = data[_V2_HEAD : _V2_HEAD + width]
    address = IPv4Address(raw) if width == 4 else IPv6Address(raw)
    at = _V2_HEAD + 2 * width
    return ProxyHeader(size, _endpoint(address, int.from_bytes(data[at : at + 2], "big")))


def _endpoint(address: IPv4Address | IPv6Address, port: int) -> str:
    """As the server logs it: an IPv4-mapped IPv6 address is an IPv4 address."""
    if isinstance(address, IPv6Address):
        return f"{address.ipv4_mapped}:{port}" if address.ipv4_mapped else f"[{address}]:{port}"
    return f"{address}:{port}"
