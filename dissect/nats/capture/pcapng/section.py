"""The state that the blocks of one section of a pcapng file share, and the meaning of each kind of
block."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ...durations import CLOCK_STEP_NS
from ...secrets.key_log import KeyLog
from ...types import PacketPlace, Packets
from ..reader import Ended, Records
from ..report import FileReport, InterfaceReport

# The byte-order magic of a section header, which follows type and length -> the byte order.
ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}

SECTION = 0x0A0D0D0A
INTERFACE, OBSOLETE, SIMPLE, STATISTICS, ENHANCED, _SECRETS = 1, 2, 3, 5, 6, 10
SECRETS_NAME = "decryption secrets"
"""The name of Decryption Secrets Blocks in `FileReport.blocks`."""

TLS_KEY_LOG = 0x544C534B
"""The secrets type of a Decryption Secrets Block that contains a TLS key log."""

_NAMES = {
    4: "name resolution",
    STATISTICS: "interface statistics",
    7: "IRIG timestamp",
    9: "systemd journal",
    _SECRETS: SECRETS_NAME,
    0xBAD: "custom",
    0x40000BAD: "custom",
}

# Codes of options, one line per kind of block; a comment has code 1 in all blocks.
_COMMENT = 1
_NAME, _TSRESOL, _TSOFFSET = 2, 9, 14
_INTERFACE_DROPS, _SYSTEM_DROPS = 5, 7
_PACKET_DROPS = 4

# Each interface takes memory, and captures have few; the obsolete packet block can address 65536 at most.
MOST_INTERFACES = 4096

# Times are int64 in every table, and a wrong timestamp must not overflow them.
_FIRST_TIME, _LAST_TIME = -(1 << 63), (1 << 63) - 1
_UNKNOWN_DROPS = 0xFFFF


# Longer options of an interface are not kept: none that is used is longer, and the description of an
# interface stays in memory as long as its section.
_LONGEST_KEPT = 1024


def _section(order: str) -> bytes:
    """The header of a section of this byte order, without options."""
    return struct.pack(order + "IIIHHqI", SECTION, 28, 0x1A2B3C4D, 1, 0, -1, 28)


def interfaces_in(context: bytes) -> int:
    """The number of interfaces that a section describes; `context` has the section's blocks
    (`Ended.context`)."""
    if context[8:12] not in ORDERS:
        return 0
    unpack = struct.Struct(ORDERS[context[8:12]] + "II").unpack_from
    at = count = 0
    while at < len(context):
        kind, size = unpack(context, at)
        count += kind == INTERFACE
        at += size
    return count


@dataclass(slots=True)
class Interface:
    """The properties of an interface that its packets need: a timestamp unit is `times` / `per`
    nanoseconds. An interface without a name has its number in the section as its `name`."""

    linktype: int
    snaplen: int
    report: InterfaceReport
    name: str
    times: int = 1000
    per: int = 1
    offset_ns: int = 0


class Section:
    """Takes the blocks of one section, and collects the packets of one piece of the file at a time. TLS
    secrets are added to `embedded`."""

    def __init__(self, order: str, report: FileReport, embedded: KeyLog | None = None) -> None:
        self.order = order
        self.interfaces: list[Interface] = []
        self._described: list[bytes] = []
        self._borrows_time = False
        self._report = report
        self._embedded = embedded
        self._data = b""
        self._runs: list[Packets] = []
        self._run: Packets | None = None
        # Interface, time (high, low), captured and original length; the obsolete block also has a drop count.
        self._enhanced = struct.Struct(order + "5I").unpack_from
        self._obsolete = struct.Struct(order + "Hxx4I").unpack_from

    def begin(self, data: bytes) -> None:
        """Sets the piece of the file that contains the next blocks."""
        self._data = data

    def take_packets(self) -> Iterator[Packets]:
        """The packets collected since the last call."""
        runs, self._runs, self._run = self._runs, [], None
        return iter(runs)

    def ended(self, next_record: int, earlier: Ended) -> Ended:
        """The state of reading if the next record begins at byte `next_record` of the file; `earlier` is the
        state before this section."""
        return Ended(
            next_record,
            _section(self.order) + b"".join(self._described),
            earlier.sections + 1,
            earlier.described + len(self.interfaces),
            earlier.borrows_time or self._borrows_time,
        )

    def add_block(self, kind: int, start: int, end: int) -> None:
        """Reads a whole block, whose body is between `start` and `end`."""
        if kind == ENHANCED or kind == OBSOLETE:
            self._packet(kind, start, end)
        elif kind == SIMPLE:
            self._simple_packet(start, end)
        elif kind == SECTION:
            self._comments(start + 16, end)
        elif kind == INTERFACE:
            self._describe(start, end)
        else:
            self._report.blocks[_NAMES.get(kind, "unknown")] += 1
            if kind == STATISTICS:
                self._statistics(start, end)
            elif kind == _SECRETS:
                self._add_secrets(start, end)

    def put(self, interface: Interface, records: Records) -> None:
        """Adds packets of one interface to the collected ones, and counts them in the report."""
        places, report = records.places, self._report
        report.saw(places[0][0], records.latest_ns, records.least_ns, records.back_ns)
        count = len(places)
        report.cut_packets += records.cut
        report.captured_bytes += records.captured
        report.wire_bytes += records.captured + records.missing
        report.linktypes[interface.linktype] += count
        report.snaplens[interface.snaplen] += count
        interface.report.packets += count
        run = self._run
        if (
            run is None
            or run.interface != interface.name
            or run.linktype != interface.linktype
            or not isinstance(run.places, list)
            or not isinstance(places, list)
        ):
            first = report.before + report.packets + 1
            link = interface.linktype, self._data
            run = Packets(report.capture, *link, first, places, interface.name)
            self._run = run
            self._runs.append(run)
        else:
            run.places += places
        report.packets += count

    def _packet(self, kind: int, start: int, end: int) -> None:
        """Reads an enhanced packet block, or an obsolete one."""
        body = start + 20
        if body > end:
            return self._skip("packet block too short")
        unpack = self._enhanced if kind == ENHANCED else self._obsolete
        index, high, low, kept, wire_bytes = unpack(self._data, start)
        if index >= len(self.interfaces):
            return self._skip("unknown interface")
        if body + kept > end:
            return self._skip("captured length too large")
        interface = self.interfaces[index]
        ts_ns = (high << 32 | low) * interface.times // interface.per + interface.offset_ns
        self.put(interface, records_of([(ts_ns, body, body + kept, max(wire_bytes, kept))], end))
        drops = 0
        if kind == OBSOLETE:
            (drops,) = struct.unpack_from(self.order + "H", self._data, start + 2)
            drops = 0 if drops == _UNKNOWN_DROPS else drops
        for code, value in self.options(body + kept + -kept % 4, end):
            if code == _COMMENT:
                self._report.comments += 1
            elif code == _PACKET_DROPS and kind == ENHANCED and len(value) == 8:
                drops = int(struct.unpack(self.order + "Q", value)[0])
        if drops:
            interface.report.packet_drops = (interface.report.packet_drops or 0) + drops

    def _simple_packet(self, start: int, end: int) -> None:
        """Reads a simple packet block: it belongs to the first interface and has no timestamp."""
        body = start + 4
        if body > end:
            return self._skip("packet block too short")
        if not self.interfaces:
            return self._skip("unknown interface")
        (length,) = struct.unpack_from(self.order + "I", self._data, start)
        interface = self.interfaces[0]
        kept = min(length, interface.snaplen or length, end - body)
        self._borrows_time = True
        place = self._report.last_ns or 0, body, body + kept, length
        self.put(interface, records_of([place], end))

    def _skip(self, reason: str) -> None:
        """Counts a packet that is not passed on, and the reason."""
        self._report.packets += 1
        self._report.skipped[reason] += 1
        self._run = None  # the packets of a run have consecutive numbers

    def _describe(self, start: int, end: int) -> None:
        """Reads an interface block. If it is too short to have a link type, the link type is -1."""
        if len(self.interfaces) == MOST_INTERFACES:
            self._report.skipped[f"interface beyond the first {MOST_INTERFACES}"] += 1
            return
        linktype, snaplen = -1, 0
        if end - start >= 8:
            linktype, snaplen = struct.unpack_from(self.order + "HxxI", self._data, start)
        described = InterfaceReport(linktype, snaplen)
        interface = Interface(linktype, snaplen, described, f"interface {len(self.interfaces)}")
        for code, value in self.options(start + 8, end):
            if code == _COMMENT:
                self._report.comments += 1
            elif code == _NAME:
                described.name = value[:256].decode("utf-8", "backslashreplace")
                interface.name = described.name or interface.name
            elif code == _TSRESOL and value:
                units = 1 << (value[0] & 127) if value[0] & 128 else 10 ** value[0]
                whole = 10**9 % units == 0
                interface.times, interface.per = (10**9 // units, 1) if whole else (10**9, units)
            elif code == _TSOFFSET and len(value) == 8:
                interface.offset_ns = struct.unpack(self.order + "q", value)[0] * 10**9
        self.interfaces.append(interface)
        self._described.append(self._block(start, end))
        if len(self._report.interfaces) < MOST_INTERFACES:
            self._report.interfaces.append(described)

    def _block(self, start: int, end: int) -> bytes:
        """A copy of an interface block without comments, which are counted only once."""
        parts = [self._data[start : min(start + 8, end)]]
        for code, value in self.options(start + 8, end):
            if code != _COMMENT and len(value) <= _LONGEST_KEPT:
                head = struct.pack(self.order + "HH", code, len(value))
                parts.append(head + value + bytes(-len(value) % 4))
        body = b"".join(parts)
        size = struct.pack(self.order + "I", len(body) + 12)
        return struct.pack(self.order + "I", INTERFACE) + size + body + size

    def _statistics(self, start: int, end: int) -> None:
        """Reads the statistics of an interface: totals since the capture began."""
        if end - start < 12:
            return
        (index,) = struct.unpack_from(self.order + "I", self._data, start)
        described = self.interfaces[index].report if index < len(self.interfaces) else None
        for code, value in self.options(start + 12, end):
            if code == _COMMENT:
                self._report.comments += 1
            elif described and len(value) == 8 and code in (_INTERFACE_DROPS, _SYSTEM_DROPS):
                (drops,) = struct.unpack(self.order + "Q", value)
                if code == _INTERFACE_DROPS:
                    described.interface_drops = drops
                else:
                    described.system_drops = drops

    def _add_secrets(self, start: int, end: int) -> None:
        """Reads a block of secrets: TLS secrets are added to `embedded`, other kinds are ignored."""
        if self._embedded is None or end - start < 8:
            return
        kind, size = struct.unpack_from(self.order + "2I", self._data, start)
        if kind == TLS_KEY_LOG:
            secrets = bytes(self._data[start + 8 : min(end, start + 8 + size)])
            self._embedded.add(secrets + b"\n", self._report.path)

    def _comments(self, start: int, end: int) -> None:
        for code, _ in self.options(start, end):
            self._report.comments += code == _COMMENT

    def options(self, at: int, end: int) -> Iterator[tuple[int, bytes]]:
        """The options between two positions of a block, up to the end mark or the first option that is
        cut."""
        while at + 4 <= end:
            code, size = struct.unpack_from(self.order + "HH", self._data, at)
            at += 4
            if not code or at + size > end:
                return
            yield code, self._data[at : at + size]
            at += size + -size % 4


def records_of(places: list[PacketPlace], at: int) -> Records:
    """Packets, after which the record at `at` comes."""
    if not places:
        return Records(places, at, 0, 0, 0, 0, 0, 0, 0)
    latest_ns, least_ns = max(places)[0], min(places)[0]
    if latest_ns > _LAST_TIME or least_ns < _FIRST_TIME:
        places = [
            (min(max(ts_ns, _FIRST_TIME), _LAST_TIME), start, end, wire_bytes)
            for ts_ns, start, end, wire_bytes in places
        ]
        latest_ns, least_ns = max(places)[0], min(places)[0]
    back_ns = _step_back(places) if latest_ns - least_ns > CLOCK_STEP_NS else 0
    _, starts, ends, sizes = zip(*places, strict=True)
    captured, on_wire = sum(ends) - sum(starts), sum(sizes)
    cut = 0
    if captured < on_wire:
        cut = sum(end - start < size for _, start, end, size in places)
    missing = on_wire - captured
    return Records(places, at, 0, latest_ns, least_ns, back_ns, captured, missing, cut)


def _step_back(places: list[PacketPlace]) -> int:
    """How far the time goes back between these packets, if it is more than `CLOCK_STEP_NS`; else 0."""
    latest_ns, back_ns = places[0][0], 0
    for ts_ns, *_ in places:
        if ts_ns > latest_ns:
            latest_ns = ts_ns
        elif latest_ns - ts_ns > back_ns:
            back_ns = latest_ns - ts_ns
    return back_ns if back_ns > CLOCK_STEP_NS else 0
