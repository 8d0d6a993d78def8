"""Segments for one stream, made by hand, and what came out of reassembly, made readable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dissect.nats.capture import CaptureReport, read_runs
from dissect.nats.engine.connections import ConnectionTable, PacketEvents
from dissect.nats.options import Options
from dissect.nats.packet import PacketParser
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.tcp.limits import Limits
from dissect.nats.tcp.reassembly import Stream
from dissect.nats.types import Chunk, Gap, Item, Oddity, Packet, Segment, Tick

from tests.support.pcapwriter import ETHERNET, Record
from tests.support.tcp_conversation import ACK, SYN

ISN = 999
BASE = ISN + 1
MASK = 0xFFFFFFFF


def segments(paths: Sequence[str]) -> Iterator[Segment | Tick]:
    """The TCP segments in the packets of captures."""
    return PacketParser().segments(read_runs(paths, CaptureReport()))


def segments_of(records: Iterable[Record]) -> list[Segment]:
    """What Ethernet packets carry."""
    parser = PacketParser()
    packets = (
        Packet(record.ts_ns, number, "t.pcap", ETHERNET, record.data, record.length)
        for number, record in enumerate(records, 1)
    )
    found = [parser.segment_of(packet) for packet in packets]
    return [segment for segment in found if segment is not None]


def packet_events(source: Iterable[Segment | Tick], options: Options) -> Iterator[PacketEvents]:
    """The groups of connections that each segment or tick releases."""
    table = ConnectionTable(options)
    yield from table.feed(source)
    yield from table.finish()


def segment(
    seq: int,
    payload: bytes = b"",
    flags: int = ACK,
    length: int | None = None,
    ms: int = 0,
    ack: int = 0,
) -> Segment:
    size = len(payload) if length is None else length
    return Segment(ms * 10**6, ms + 1, "t.pcap", b"", seq & MASK, ack & MASK, flags, payload, size)


def syn(isn: int = ISN) -> Segment:
    return segment(isn, flags=SYN)


def acking(position: int, ms: int = 0, base: int = BASE) -> Segment:
    """A segment of the other side that has everything up to a position of the stream."""
    return segment(1, ack=base + position, ms=ms)


def opened(limits: Limits | None = None, isn: int = ISN) -> Stream:
    stream = Stream(limits) if limits else Stream()
    assert stream.push(syn(isn)) == []
    return stream


def data_of(items: Iterable[Item]) -> bytes:
    return b"".join(item.data for item in items if isinstance(item, Chunk))


def gaps(items: Iterable[Item]) -> list[tuple[int, int, bool]]:
    return [(item.offset, item.length, item.truncated) for item in items if isinstance(item, Gap)]


def oddities(items: Iterable[Item]) -> list[tuple[Anomaly, int, int]]:
    return [(item.anomaly, item.offset, item.length) for item in items if isinstance(item, Oddity)]


def check_sums(stream: Stream, items: list[Item]) -> None:
    """Chunks and gaps follow each other without a seam, and add up to the span."""
    at = 0
    for item in items:
        if not isinstance(item, Oddity):
            size = len(item.data) if isinstance(item, Chunk) else item.length
            assert item.offset == at and size > 0
            at += size
    assert at == stream.offset
    assert stream.missing_bytes == sum(length for _, length, _ in gaps(items))


def run(segments: Iterable[Segment], stream: Stream | None = None) -> tuple[Stream, list[Item]]:
    """All that a stream makes of these segments."""
    stream = stream or opened()
    items = [item for each in segments for item in stream.push(each)] + stream.finish()
    check_sums(stream, items)
    assert stream.held == []
    return stream, items
