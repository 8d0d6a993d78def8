"""Packet -> segment, on any link, with dpkt as the witness."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import dpkt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.capture import CaptureReport, read_packets, read_runs
from dissect.nats.packet import PacketParser, flow_hash
from dissect.nats.types import NO_SCALE, TICK_NS, Packet, Packets, Segment, Tick

from tests.support.paths import CAPTURES
from tests.support.pcapwriter import (
    ETHERNET,
    LOOP,
    NULL,
    RAW,
    SLL,
    SLL2,
    START_NS,
    UDP,
    fragments,
    ip,
    link,
    tcp,
)
from tests.support.tcp_conversation import ACK, PSH, SYN

SAMPLES = sorted(CAPTURES.glob("*.pcap"))
LINKS = {
    1: dpkt.ethernet.Ethernet,
    113: dpkt.sll.SLL,
    276: dpkt.sll2.SLL2,
    0: dpkt.loopback.Loopback,
}
PORTS = (40000, 4222)
FOUR = ("10.0.0.1", "10.0.0.2")
SIX = ("fd00::1", "fd00::2")


def packet(data: bytes, linktype: int = ETHERNET, wire_bytes: int | None = None) -> Packet:
    return Packet(
        START_NS, 7, "t.pcap", linktype, data, len(data) if wire_bytes is None else wire_bytes
    )


def segment_of(packet: Packet) -> Segment | None:
    return PacketParser().segment_of(packet)


def reason(packet: Packet) -> str:
    """Why a packet gives no segment."""
    parser = PacketParser()
    assert parser.segment_of(packet) is None
    ((name, count),) = parser.passed_over.items()
    assert count == 1
    return name


Seen = tuple[bytes, int, int, int, bytes, int, int | None]


def by_dpkt(packet: Packet) -> Seen | None:
    """The key, numbers, flags, payload, window and window scale that dpkt sees."""
    if packet.linktype == RAW:
        network = (dpkt.ip6.IP6 if packet.data[:1] >= b"\x60" else dpkt.ip.IP)(packet.data)
    else:
        network = LINKS[packet.linktype](packet.data).data
    if not isinstance(network, (dpkt.ip.IP, dpkt.ip6.IP6)) or not isinstance(
        network.data, dpkt.tcp.TCP
    ):
        return None
    its = network.data
    ports = its.sport.to_bytes(2, "big") + its.dport.to_bytes(2, "big")
    numbers = its.seq, its.ack, its.flags & 255, bytes(its.data)
    return network.src + network.dst + ports, *numbers, its.win, _scale(its)


def _scale(its: dpkt.tcp.TCP) -> int | None:
    if not its.flags & SYN:
        return None
    try:
        options = dict(dpkt.tcp.parse_opts(its.opts))
    except IndexError:
        return None
    scale = options.get(dpkt.tcp.TCP_OPT_WSCALE)
    return min(scale[0], 14) if scale else NO_SCALE


def seen(segment: Segment | None) -> Seen | None:
    if segment is None:
        return None
    numbers = segment.seq, segment.ack, segment.flags, segment.payload
    return segment.key, *numbers, segment.window, segment.window_scale


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_the_samples_have_the_segments_that_dpkt_sees(path: Path) -> None:
    packets = list(read_packets([str(path)], CaptureReport()))
    assert packets
    for each in packets:
        segment = segment_of(each)
        assert seen(segment) == by_dpkt(each)
        if segment is not None and len(each.data) == each.wire_bytes:
            assert segment.length == len(segment.payload)


@pytest.mark.parametrize("hosts", [FOUR, SIX])
@pytest.mark.parametrize("linktype", [ETHERNET, SLL, SLL2, RAW, 12, 14, 228, 229, NULL, LOOP])
def test_every_link_brings_the_same_segment(linktype: int, hosts: tuple[str, str]) -> None:
    data = link(ip(*hosts, tcp(PORTS, 1000, 2000, PSH | ACK, b"PING\r\n")), linktype)
    segment = segment_of(packet(data, linktype))
    assert segment is not None
    assert segment == Segment(
        START_NS, 7, "t.pcap", segment.key, 1000, 2000, PSH | ACK, b"PING\r\n", 6
    )
    size = 4 if hosts == FOUR else 16
    assert len(segment.key) == 2 * size + 4
    assert segment.key[-4:] == b"\x9c\x40\x10\x7e"


@settings(deadline=None)
@given(
    st.binary(max_size=60),
    st.sampled_from([FOUR, SIX]),
    st.sampled_from([ETHERNET, SLL, SLL2, RAW, NULL]),
    st.integers(0, 10),
    st.integers(0, 10),
    st.integers(0, 255),
    st.binary(max_size=8),
)
def test_made_up_packets_are_as_dpkt_sees_them(
    payload: bytes,
    hosts: tuple[str, str],
    linktype: int,
    tcp_words: int,
    ip_words: int,
    flags: int,
    trailer: bytes,
) -> None:
    body = tcp(PORTS, 1 << 31, 5, flags, payload, bytes([1] * 4 * tcp_words))
    options = bytes([1] * 4 * ip_words) if hosts == FOUR else b""
    network = ip(*hosts, body, options=options)
    made = packet(link(network, linktype) + trailer, linktype)
    segment = segment_of(made)
    assert segment is not None
    assert (segment.payload, segment.length) == (payload, len(payload))
    assert seen(segment) == by_dpkt(made)


@pytest.mark.parametrize("hosts", [FOUR, SIX])
def test_a_cut_packet_still_says_how_long_it_was(hosts: tuple[str, str]) -> None:
    whole = link(ip(*hosts, tcp(PORTS, 1, 2, ACK, b"x" * 100, bytes(12))))
    header = len(whole) - 100
    for kept in range(header - 12 - 6, len(whole)):  # from the flags of TCP on
        segment = segment_of(packet(whole[:kept], wire_bytes=len(whole)))
        assert segment is not None
        assert (segment.length, len(segment.payload)) == (100, max(0, kept - header))


@pytest.mark.parametrize("hosts", [FOUR, SIX])
def test_a_header_that_was_cut_off_gives_nothing(hosts: tuple[str, str]) -> None:
    whole = link(ip(*hosts, tcp(PORTS, 1, 2, ACK, b"x")))
    for kept in range(14, len(whole) - 7):
        assert reason(packet(whole[:kept], wire_bytes=len(whole))) == "header cut off"


@pytest.mark.parametrize("hosts", [FOUR, SIX])
def test_a_length_of_zero_means_up_to_the_end(hosts: tuple[str, str]) -> None:
    data = link(ip(*hosts, tcp(PORTS, 1, 2, ACK, b"x" * 50), total=0))
    segment = segment_of(packet(data))
    assert segment is not None
    assert segment.payload == b"x" * 50
    segment = segment_of(packet(data[:-20], wire_bytes=len(data)))
    assert segment is not None
    assert (segment.length, len(segment.payload)) == (50, 30)


def test_a_size_that_no_packet_has_is_not_believed() -> None:
    data = link(ip(*FOUR, tcp(PORTS, 1, 2, ACK, b"x"), total=0))
    assert reason(packet(data, wire_bytes=0xFFFFFFFF)) == "bad tcp header"


@pytest.mark.parametrize("hosts", [FOUR, SIX])
@pytest.mark.parametrize("offset", [0x00, 0x40, 0xF0])
def test_a_header_length_that_cannot_be_gives_nothing(hosts: tuple[str, str], offset: int) -> None:
    body = bytearray(tcp(PORTS, 1, 2, ACK, b"x" * 20))
    body[12] = offset
    assert reason(packet(link(ip(*hosts, bytes(body))))) == "bad tcp header"


def test_what_is_not_tcp_is_counted_by_what_it_is() -> None:
    parser = PacketParser()
    for made in (
        packet(link(ip(*FOUR, b"x" * 20, proto=UDP))),
        packet(link(ip(*SIX, b"x" * 20, proto=UDP))),
        packet(bytes(12) + b"\x08\x06" + bytes(28)),
        packet(b"anything", 147),
    ):
        assert parser.segment_of(made) is None
    assert parser.passed_over == {"udp": 2, "arp": 1, "link type 147, USER0": 1}


@settings(deadline=None)
@given(st.binary(max_size=120), st.sampled_from([0, 1, 9, 12, 50, 101, 108, 113, 228, 276, 999]))
def test_any_bytes_give_a_segment_or_a_reason(data: bytes, linktype: int) -> None:
    parser = PacketParser()
    segment = parser.segment_of(packet(data, linktype))
    parser.finish()
    assert (segment is None) == (sum(parser.passed_over.values()) == 1)
    if segment is not None:
        assert len(segment.payload) <= segment.length


@settings(deadline=None)
@given(st.data(), st.sampled_from([FOUR, SIX]), st.sampled_from([ETHERNET, SLL, SLL2, RAW, NULL]))
def test_flipped_bytes_give_a_segment_or_a_reason(
    data: st.DataObject, hosts: tuple[str, str], linktype: int
) -> None:
    good = bytearray(link(ip(*hosts, tcp(PORTS, 1, 2, ACK, b"x" * 30)), linktype))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    parser = PacketParser()
    segment = parser.segment_of(packet(bytes(good), linktype))
    parser.finish()  # a fragment that waits is passed over at the end
    assert (segment is None) == (sum(parser.passed_over.values()) == 1)


# Runs of packets


def run_of(*packets: Packet, first: int = 1) -> Packets:
    """They stand in a block with other bytes between them."""
    block, places = b"", []
    for each in packets:
        block += b"----"
        places.append((each.ts_ns, len(block), len(block) + len(each.data), each.wire_bytes))
        block += each.data
    return Packets("t.pcap", packets[0].linktype, block + b"after", first, places)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_run_gives_the_segments_of_its_packets(path: Path) -> None:
    one_by_one, together = PacketParser(), PacketParser()
    packets = list(read_packets([str(path)], CaptureReport()))
    wanted = [one_by_one.segment_of(each) for each in packets]
    found = list(together.segments(read_runs([str(path)], CaptureReport())))
    assert found == [segment for segment in wanted if segment is not None]
    one_by_one.finish()
    assert together.passed_over == one_by_one.passed_over


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255), st.integers(0, 60)), max_size=4),
    st.sampled_from([ETHERNET, SLL, SLL2, RAW, 12, 228, NULL, LOOP]),
    st.integers(0, 5),
)
def test_the_short_way_and_the_long_way_agree(
    flips: list[tuple[int, int, int]], linktype: int, words: int
) -> None:
    """Any packet in a run gives what it gives when options put it on the long way."""
    good = bytearray(link(ip(*FOUR, tcp(PORTS, 1, 2, ACK, b"x" * 30, bytes(4 * words))), linktype))
    for place, value, _ in flips:
        good[place % len(good)] = value
    kept = min([len(good), *(len(good) - cut for _, _, cut in flips)])
    made = packet(bytes(good[:kept]), linktype, len(good))
    one, other = PacketParser(), PacketParser()
    segment = one.segment_of(made)
    one.finish()
    found = list(other.segments([run_of(made, first=7)]))
    assert found == ([] if segment is None else [segment])
    assert other.passed_over == one.passed_over


def segments_in(parser: PacketParser, runs: Iterable[Packets]) -> Iterator[Segment]:
    """The segments without the ticks."""
    return (each for each in parser.segments(runs) if isinstance(each, Segment))


def test_packets_are_counted_up_to_the_segment() -> None:
    udp = packet(link(ip(*FOUR, b"x" * 20, proto=UDP)))
    good = packet(link(ip(*FOUR, tcp(PORTS, 1, 2, ACK))))
    long = packet(link(ip(*FOUR, tcp(PORTS, 1, 2, ACK), options=bytes(4))))
    runs = [run_of(udp, good, udp), run_of(udp, good, first=9), run_of(udp, long, first=3)]
    found = list(segments_in(PacketParser(), runs))
    assert [(s.ordinal, s.number) for s in found] == [(2, 2), (5, 10), (7, 4)]


# Shares


def hosts_of(number: int) -> tuple[str, str]:
    return (f"10.0.{number}.1", f"10.0.{number}.2")


def traffic() -> list[Packet]:
    """Both directions of some flows: plain, with options, IPv6, in a tunnel, in fragments."""
    made = []
    for number in range(40):
        one, other = hosts_of(number)
        six = (f"fd00::{number}:1", f"fd00::{number}:2")
        for a, b, ports in ((one, other, PORTS), (other, one, PORTS[::-1])):
            body = tcp(ports, number, 2, ACK, b"x" * 40)
            made += [ip(a, b, body), ip(a, b, body, options=bytes(4))]
            made += fragments(a, b, body, 24)
            made.append(ip("192.0.2.1", "192.0.2.2", ip(a, b, body), proto=4))
        for a, b, ports in ((*six, PORTS), (*six[::-1], PORTS[::-1])):
            made.append(ip(a, b, tcp(ports, number, 2, ACK, b"y")))
        made.append(ip(one, other, b"x" * 20, proto=UDP))
    return [replace(packet(link(data)), ts_ns=START_NS + at) for at, data in enumerate(made)]


@pytest.mark.parametrize("shares", [1, 2, 5])
def test_every_segment_is_in_one_share(shares: int) -> None:
    whole = PacketParser()
    expected = list(segments_in(whole, [run_of(*traffic())]))
    assert len(expected) == 40 * (2 * 4 + 2)
    found: list[Segment] = []
    for own in range(shares):
        parser = PacketParser(lambda value: value % shares == own)
        mine = list(segments_in(parser, [run_of(*traffic())]))
        keys = {segment.key for segment in mine}
        assert {key[4:8] + key[:4] + key[10:] + key[8:10] for key in keys if len(key) == 12} <= keys
        assert parser.passed_over == whole.passed_over
        assert len(mine) + parser.other_shard == len(expected)
        found += mine
    assert sorted(found, key=lambda segment: segment.number) == expected


def test_both_directions_have_one_hash() -> None:
    for size in (4, 16):
        a, b = b"a" * size, b"b" * size
        assert flow_hash(a + b + b"ppqq") == flow_hash(b + a + b"qqpp")
        assert flow_hash(a + b + b"ppqq") != flow_hash(a + b + b"qqpp")
        assert flow_hash(a + a + b"ppqq") == flow_hash(a + a + b"qqpp")


def test_another_shard_gives_a_tick_where_a_packet_falls_in_another_second() -> None:
    begin = START_NS - START_NS % TICK_NS
    times = [5, 6, TICK_NS - 1, TICK_NS, TICK_NS + 7, 3, 4, 90 * TICK_NS]
    made = [
        replace(packet(link(ip(*FOUR, tcp(PORTS, 1, 2, ACK), options=options))), ts_ns=begin + at)
        for at in times
        for options in (b"", bytes(4))
    ]
    found = list(PacketParser(lambda value: False).segments([run_of(*made[:6]), run_of(*made[6:])]))
    assert found == [Tick(begin + times[at], 2 * at + 1) for at in (0, 3, 5, 7)]


def test_segments_of_the_shard_count_as_packets_before() -> None:
    """A packet of another shard gives no tick in the second of this shard's latest segment."""
    parser = PacketParser(lambda value: value % 2 == 0)
    made = [replace(each, ts_ns=START_NS + at * TICK_NS // 3) for at, each in enumerate(traffic())]
    second, expected = -1, []
    whole = PacketParser()
    for segment in segments_in(whole, [run_of(*made)]):
        is_new, second = segment.ts_ns // TICK_NS != second, segment.ts_ns // TICK_NS
        if flow_hash(segment.key) % 2 and is_new:
            expected.append(Tick(segment.ts_ns, segment.ordinal))
    ticks = [each for each in parser.segments([run_of(*made)]) if isinstance(each, Tick)]
    assert ticks == expected and len(ticks) > 20


def test_keys_without_end_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("dissect.nats.packet.tcp._MOST_KEYS", 10)

    def wanted(value: int) -> bool:
        asked.append(value)
        return value % 2 == 0

    parser = PacketParser(wanted)
    made = [packet(link(ip(*hosts_of(number), tcp(PORTS, 1, 2, ACK)))) for number in range(25)]
    found = list(segments_in(parser, [run_of(*made * 2)]))
    assert {flow_hash(segment.key) % 2 for segment in found} == {0}
    assert 25 <= len(asked) <= 50
    assert len(found) + parser.other_shard == 50
