"""What tests of byte ranges and partitions need: captures that are hard to cut, and the single read as
witness."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dissect.nats.capture import CaptureReport, FileReport, read_packets
from dissect.nats.partition.byte_ranges import captures, cut, read_byte_range
from dissect.nats.partition.partitions import Partition, in_order, partitions_of, read_partition
from dissect.nats.partition.record_index import (
    RecordChain,
    RecordIndex,
    joined,
    prove_all,
    walk_chain,
)
from dissect.nats.types import Packet

from tests.support.pcapwriter import (
    START_NS,
    Interface,
    Record,
    block,
    enhanced_packet,
    interface_block,
    option,
    pcap_file,
    pcapng_file,
    section,
    simple_packet,
)

SIZES = (4096, 1 << 16, 1 << 20, 1 << 40)


def here(chains: Iterable[RecordChain]) -> Iterator[list[RecordIndex]]:
    """Walks, one after the other, in an order that is not theirs."""
    return map(walk_chain, sorted(chains, key=lambda chain: -chain[0].number))


def settled(paths: Sequence[str | Path], size: int) -> tuple[list[list[RecordIndex]], int]:
    files = captures([str(path) for path in paths], CaptureReport())
    return prove_all([cut(path, size) for path in files], here)


def packets_of(walked: Sequence[RecordIndex]) -> list[Packet]:
    return [
        packet
        for each in walked
        for run in read_byte_range(each.byte_range, each.byte_range.report())
        for packet in run
    ]


def whole(paths: Sequence[str | Path]) -> tuple[list[Packet], list[FileReport]]:
    """The packets and reports of a single read. Where it stands in a file is its own affair."""
    report = CaptureReport()
    packets = list(read_packets([str(path) for path in paths], report))
    return packets, [replace(file, position=file.size or 0) for file in report.files]


def same_when_cut(path: Path, size: int) -> int:
    """Checks that a file's byte ranges are the file; gives how many were walked again."""
    packets, reports = whole([path])
    (walked,), wrong = settled([path], size)
    assert packets_of(walked) == packets
    assert [joined(walked)] == reports
    for each, following in zip(walked, walked[1:]):
        assert (each.next_record, each.ended.context) == (
            following.byte_range.start,
            following.byte_range.context,
        )
    return wrong


def same_in_partitions(paths: Sequence[Path], size: int) -> list[Partition]:
    """Checks that the partitions of files are their timeline."""
    packets, reports = whole(paths)
    walked, _ = settled(paths, size)
    made = partitions_of(walked)
    found = [
        packet for one in made for run in read_partition(one, CaptureReport()) for packet in run
    ]
    assert found == packets
    assert [joined(each) for each in in_order(walked)] == reports
    return made


def packets(count: int, seed: int = 1, sizes: Sequence[int] = (40, 60, 300, 1500)) -> list[Record]:
    """Packets of random bytes, a millisecond apart."""
    chance = random.Random(seed)
    return [
        Record(START_NS + number * 10**6, chance.randbytes(chance.choice(sizes)))
        for number in range(count)
    ]


def modified(records: Sequence[Record], order: str) -> bytes:
    """A capture in Kuznetzov's format, whose record headers are longer."""
    parts = [struct.pack(order + "IHHiIII", 0xA1B2CD34, 2, 4, 0, 0, 65535, 1)]
    for record in records:
        seconds, rest = divmod(record.ts_ns, 10**9)
        sizes = len(record.data), record.length
        parts += [struct.pack(order + "4IIHBB", seconds, rest // 1000, *sizes, 1, 8, 0, 0)]
        parts.append(record.data)
    return b"".join(parts)


def sections() -> bytes:
    """Sections of both byte orders, interfaces described late, comments, and blocks of all kinds."""
    parts = []
    for number, order in enumerate("<>><<"):
        interfaces = [Interface(1, 65535), Interface(101, 0, tsresol=9, tsoffset=-5)]
        parts.append(section(order, option(1, b"a comment", order)))
        described: list[Interface] = []
        for count, record in enumerate(packets(150, number)):
            if count in (0, 70):
                described.append(interfaces[len(described)])
                parts.append(interface_block(described[-1], order))
                parts.append(block(5, struct.pack(order + "III", 0, 0, 0) + drops(order), order))
            of = count % len(described)
            here = replace(record, interface=of, wire_bytes=2000 if count % 9 == 0 else None)
            parts.append(enhanced_packet(here, described[of], order, options(count, order)))
            if count % 50 == 0:
                parts += [block(4, b"", order), block(0xBAD, b"who knows", order)]
                parts += [simple_packet(record, order), block(6, bytes(12), order)]
    return b"".join(parts)


def drops(order: str) -> bytes:
    return option(5, struct.pack(order + "Q", 7), order)


def options(count: int, order: str) -> bytes:
    return option(4, struct.pack(order + "Q", 1), order) if count % 40 == 0 else b""


def interfaces() -> bytes:
    """More interfaces than are kept, of a section and of the file; names and comments with them."""
    parts = []
    for number in range(2):
        parts.append(section())
        for count in range(3000 + 1200 * number):
            options = (
                option(1, b"a comment") + option(2, b"eth%d" % count) if count % 99 == 0 else b""
            )
            parts.append(block(1, struct.pack("<HHI", 1, 0, 96) + options))
        for count, record in enumerate(packets(20, number)):
            parts.append(enhanced_packet(replace(record, interface=count * 208), Interface()))
    return b"".join(parts)


def simple() -> bytes:
    """Packets whose times are those of packets before them."""
    interface = Interface()
    parts = [section(), interface_block(interface)]
    for count, record in enumerate(packets(400)):
        timed = count % 100 == 50
        parts.append(enhanced_packet(record, interface) if timed else simple_packet(record))
    return b"".join(parts)


def inside(make: Callable[[Sequence[Record]], bytes]) -> bytes:
    """A capture whose packets carry captures."""
    inner = make(packets(60, 2))
    records = [Record(START_NS + at, inner[at : at + 6000]) for at in range(0, len(inner), 6000)]
    whole = [
        replace(record, data=make(packets(30, number))) for number, record in enumerate(records)
    ]
    return make([*records, *whole, *records])


def backwards(records: Sequence[Record], ms: int = 25) -> list[Record]:
    """Each tenth packet is late."""
    return [
        replace(record, ts_ns=record.ts_ns - ms * 10**6) if number % 10 == 9 else record
        for number, record in enumerate(records)
    ]


def _hostile() -> Iterator[tuple[str, bytes]]:
    records = packets(300)
    for order in "<>":
        yield f"micro {order}", pcap_file(records, order=order)
        yield f"nano {order}", pcap_file(records, order=order, nanoseconds=True)
        yield f"modified {order}", modified(records, order)
        yield f"pcapng {order}", pcapng_file(records, order=order)
    yield "sections", sections()
    yield "interfaces", interfaces()
    yield "simple", simple()
    yield "pcap in pcap", inside(pcap_file)
    yield "pcapng in pcapng", inside(pcapng_file)
    yield "truncated", pcap_file(records)[:-7]
    yield "truncated pcapng", pcapng_file(records)[:-7]
    yield "no packets", pcap_file([])
    yield "one interface", pcapng_file([])
    for name, data in (("pcap", pcap_file(records)), ("pcapng", pcapng_file(records))):
        middle = len(data) // 2
        yield f"damaged {name}", data[:middle] + bytes([255]) * 4000 + data[middle + 4000 :]
    yield "huge", pcap_file(packets(6, sizes=(90, 30_000, 90_000)))
    yield "snaplen", pcap_file(packets(4, sizes=(90, 300_000)), snaplen=1 << 20)
    yield "huge pcapng", pcapng_file(packets(5, sizes=(90, 150_000)))
    yield "backwards", pcap_file(backwards(records))
    yield "backwards pcapng", pcapng_file(backwards(records))
    yield "zeros", pcap_file([replace(record, data=bytes(30_000)) for record in records[:6]])
    longer = [replace(record, wire_bytes=0) for record in records]
    yield "lengths of nothing", pcap_file(longer)


HOSTILE = dict(_hostile())
