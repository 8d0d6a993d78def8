"""pcapng files -> packets: sections of either byte order, several interfaces, any time resolution.

Follows draft-ietf-opsawg-pcapng. Packets are the enhanced, simple and (obsolete) packet blocks; all
other blocks are passed over by their length. Simple packets carry no time: they get that of the packet
before them. A block whose length cannot be right ends the reading, as does the end of the file inside
one; that is noted in the report with the place, and everything before it has been read. A packet that
names an interface nobody described, or claims more bytes than its block has, is counted as skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from ..wire import Packet
from .blocks import Blocks
from .report import FileReport

MAGIC = b"\x0a\x0d\x0d\x0a"
# Every section says its byte order with this number behind its type and length.
_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
HEADER = 12

_SECTION, _INTERFACE, _PACKET, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
_TSRESOL, _TSOFFSET = 9, 14

# Wireshark reads blocks up to 16 MiB, and packets up to 128 MiB on the links with the largest.
LARGEST_BLOCK = 128 << 20
_SHORTEST_SECTION = 28

# Times are int64 in every table; a lying timestamp must not break one.
_FIRST_TIME, _LAST_TIME = -(1 << 63), (1 << 63) - 1


@dataclass(slots=True)
class _Interface:
    """What the packets of one interface need, and how many there were: a tick is `times` / `per`
    nanoseconds."""

    linktype: int
    snaplen: int
    times: int = 1000
    per: int = 1
    offset_ns: int = 0
    packets: int = 0


def is_section(head: bytes) -> bool:
    """Whether the first `HEADER` bytes of an input are those of a pcapng section."""
    return head[:4] == MAGIC and head[8:12] in _ORDERS


def read_pcapng(blocks: Blocks, report: FileReport) -> Generator[Packet, None, None]:
    """The packets of a file that begins with a section. `report` has all its numbers when the reader
    is exhausted or closed."""
    section = _Section("<", report)
    try:
        for kind, start, end in _walk(blocks, report):
            if kind == _ENHANCED or kind == _PACKET:
                packet = section.packet(kind, blocks.data, start, end)
            elif kind == _SIMPLE:
                packet = section.simple_packet(blocks.data, start, end)
            else:
                packet = None
                if kind == _INTERFACE:
                    section.describe(blocks.data[start:end])
                elif kind == _SECTION:
                    section.count_links()
                    section = _Section(_ORDERS[blocks.data[start : start + 4]], report)
            if packet is not None:
                yield packet
    finally:
        section.count_links()


def _walk(blocks: Blocks, report: FileReport) -> Iterator[tuple[int, int, int]]:
    """Type, and start and end of the body in `blocks.data`, of each whole block."""
    unpack = struct.Struct("<II").unpack_from
    need = HEADER
    while blocks.fill(need):
        data, at = blocks.data, blocks.at
        last = len(data) - HEADER
        need = HEADER
        while at <= last:
            kind, size = unpack(data, at)
            if kind == _SECTION:
                unpack = struct.Struct(_ORDERS.get(data[at + 8 : at + 12], "<") + "II").unpack_from
                kind, size = unpack(data, at)
            end = at + size
            fault = _fault(data, at, kind, size)
            if fault:
                blocks.at = at
                report.break_off(fault, blocks.position)
                return
            if end > len(data):
                need = size
                break
            yield kind, at + 8, end - 4
            at = end
        blocks.at = at
    if blocks.fault or len(blocks.data) > blocks.at:
        report.break_off(blocks.fault or "the file is cut short", blocks.position)


def _fault(data: bytes, at: int, kind: int, size: int) -> str:
    """What is wrong with the block at `at`, so that there is no telling where the next one is."""
    if not HEADER <= size <= LARGEST_BLOCK or size % 4:
        return f"a block of {size} bytes is claimed"
    if kind == _SECTION and (size < _SHORTEST_SECTION or data[at + 8 : at + 12] not in _ORDERS):
        return "a section without a byte order is"
    end = at + size
    if end <= len(data) and data[end - 4 : end] != data[at + 4 : at + 8]:
        return "the two lengths of a block differ"
    return ""


class _Section:
    """What the packets of one section share: a byte order and the interfaces described so far."""

    def __init__(self, order: str, report: FileReport) -> None:
        self._order = order
        self._report = report
        self._interfaces: list[_Interface] = []
        # Interface, time (high, low), captured and original length; the old block also counts drops.
        self._enhanced = struct.Struct(order + "5I").unpack_from
        self._obsolete = struct.Struct(order + "Hxx4I").unpack_from

    def count_links(self) -> None:
        """Tell the report how many packets each link type had."""
        for interface in self._interfaces:
            if interface.packets:
                self._report.linktypes[interface.linktype] += interface.packets

    def describe(self, body: bytes) -> None:
        """An interface block. One too short to say a link type makes an interface of an unknown one."""
        if len(body) < 8:
            self._interfaces.append(_Interface(-1, 0))
            return
        linktype, snaplen = struct.unpack_from(self._order + "HxxI", body)
        interface = _Interface(linktype, snaplen)
        for code, value in self._options(body, 8):
            if code == _TSRESOL and value:
                units = 1 << (value[0] & 127) if value[0] & 128 else 10 ** value[0]
                whole = 10**9 % units == 0
                interface.times, interface.per = (10**9 // units, 1) if whole else (10**9, units)
            elif code == _TSOFFSET and len(value) == 8:
                interface.offset_ns = struct.unpack(self._order + "q", value)[0] * 10**9
        self._interfaces.append(interface)

    def _options(self, body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
        while at + 4 <= len(body):
            code, size = struct.unpack_from(self._order + "HH", body, at)
            if not code:
                return
            yield code, body[at + 4 : at + 4 + size]
            at += 4 + size + -size % 4

    def packet(self, kind: int, data: bytes, start: int, end: int) -> Packet | None:
        """An enhanced packet block, or an obsolete one."""
        report = self._report
        report.packets += 1
        body = start + 20
        if body > end:
            return self._skip("packet block too short")
        unpack = self._enhanced if kind == _ENHANCED else self._obsolete
        index, high, low, kept, length = unpack(data, start)
        if index >= len(self._interfaces):
            return self._skip("unknown interface")
        if body + kept > end:
            return self._skip("captured length too large")
        interface = self._interfaces[index]
        ts_ns = (high << 32 | low) * interface.times // interface.per + interface.offset_ns
        if not _FIRST_TIME <= ts_ns <= _LAST_TIME:
            ts_ns = min(max(ts_ns, _FIRST_TIME), _LAST_TIME)
        return self._made(interface, ts_ns, data[body : body + kept], length)

    def simple_packet(self, data: bytes, start: int, end: int) -> Packet | None:
        """A simple packet block: of the first interface, at no time of its own."""
        self._report.packets += 1
        body = start + 4
        if body > end:
            return self._skip("packet block too short")
        if not self._interfaces:
            return self._skip("unknown interface")
        (length,) = struct.unpack_from(self._order + "I", data, start)
        interface = self._interfaces[0]
        kept = min(length, interface.snaplen or length, end - body)
        return self._made(interface, self._report.last_ns or 0, data[body : body + kept], length)

    def _skip(self, reason: str) -> Packet | None:
        self._report.skipped[reason] += 1
        return None

    def _made(self, interface: _Interface, ts_ns: int, data: bytes, length: int) -> Packet:
        """The packet, once the report knows of it."""
        report = self._report
        if report.last_ns is None:
            report.first_ns = report.last_ns = ts_ns
        elif ts_ns > report.last_ns:
            report.last_ns = ts_ns
        interface.packets += 1
        kept = len(data)
        report.captured_bytes += kept
        wire_bytes = length if length > kept else kept
        return Packet(ts_ns, report.packets, report.capture, interface.linktype, data, wire_bytes)
