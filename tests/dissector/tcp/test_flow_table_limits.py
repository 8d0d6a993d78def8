"""The table of flows stays small, and says what that costs."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.tcp.flow import Delivery, End, Flow
from dissect.nats.tcp.flow_table import FlowTable
from dissect.nats.tcp.limits import FlowLimits, Limits
from dissect.nats.tcp.reassembly import Stream
from dissect.nats.types import NEVER_NS, Chunk, Direction, Gap, Oddity, Segment

SECOND = 10**9
FIN, SYN, ACK = 1, 2, 16


def key_of(port: int, back: bool = False) -> bytes:
    ends = [bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))]
    ports = [port.to_bytes(2, "big"), (4222).to_bytes(2, "big")]
    return b"".join(ends[::-1] + ports[::-1] if back else ends + ports)


def segment(
    port: int, ts_ns: int, seq: int, data: bytes = b"", flags: int = ACK, back: bool = False
) -> Segment:
    return Segment(ts_ns, 1, "t.pcap", key_of(port, back), seq, 0, flags, data, len(data))


def ended(deliveries: list[Delivery]) -> list[str]:
    """The originators of ended flows, in the order of the report."""
    return [
        flow.originator for flow, way, _ in deliveries if flow.over and way is Direction.RESPONDER
    ]


# Time


def test_flows_end_when_their_time_is_over_in_the_order_of_their_beginnings() -> None:
    table = FlowTable(Stream, FlowLimits(idle_ns=100 * SECOND))
    assert table.next_expiry_ns == NEVER_NS
    for port, at in ((3, 1), (1, 2), (2, 3)):
        table.add(segment(port, at * SECOND, 100, flags=SYN))
    table.add(segment(3, 50 * SECOND, 101, b"a"))
    assert table.next_expiry_ns == 102 * SECOND - 1
    assert table.tick(102 * SECOND) == []
    assert table.next_expiry_ns == 103 * SECOND - 1
    assert ended(table.tick(151 * SECOND)) == ["10.0.0.1:3", "10.0.0.1:1", "10.0.0.1:2"]
    assert table.next_expiry_ns == NEVER_NS


def test_a_flow_ends_with_the_first_packet_of_a_second() -> None:
    table = FlowTable(Stream, FlowLimits(idle_ns=10 * SECOND))
    table.add(segment(1, 3 * SECOND // 2, 100, flags=SYN))
    assert ended(table.tick(12 * SECOND - 1)) == []
    assert ended(table.tick(12 * SECOND)) == ["10.0.0.1:1"]


def test_a_flow_that_was_silent_too_long_says_so() -> None:
    table = FlowTable(Stream, FlowLimits(idle_ns=100 * SECOND))
    table.add(segment(1, 1, 100, flags=SYN))
    flow, _, _ = table.tick(101 * SECOND)[0]
    assert flow.end is End.IDLE


def test_closed_flows_go_by_their_own_time_in_whatever_order_they_closed() -> None:
    table = FlowTable(Stream)
    for port, at in ((1, 50 * SECOND), (2, 10 * SECOND)):
        table.add(segment(port, at, 100, flags=SYN))
        table.add(segment(port, at, 101, flags=4))
    assert ended(table.tick(71 * SECOND)) == ["10.0.0.1:2"]
    assert ended(table.tick(111 * SECOND - 1)) == []
    assert ended(table.tick(111 * SECOND)) == ["10.0.0.1:1"]


def test_a_tick_does_what_a_packet_of_another_flow_does() -> None:
    """It is enough where a packet falls in another second than the one before it."""

    def life(others: bool) -> list[list[str]]:
        table = FlowTable(Stream, FlowLimits(idle_ns=40 * SECOND, linger_ns=20 * SECOND))
        reported = []
        rng = random.Random(3)
        now = second = 0
        for _ in range(2000):
            now += rng.choice((0, SECOND // 3, SECOND, 5 * SECOND, -3 * SECOND))
            before, second = second, now // SECOND
            port = rng.randrange(12)
            flags = rng.choice((ACK, ACK, SYN, 4, 1))
            if port < 3:
                delivered = table.add(segment(port, now, rng.choice((100, 5000)), b"x", flags))
            elif others:
                delivered = table.add(segment(port, now, 100, flags=flags))
            else:
                delivered = table.tick(now) if second != before else []
            reported.append([name for name in ended(delivered) if int(name.split(":")[1]) < 3])
        return reported

    with_others = life(others=True)
    assert life(others=False) == with_others
    assert sum(map(len, with_others)) > 20


def test_reused_ports_leave_nothing_behind() -> None:
    table = FlowTable(Stream)
    for count in range(1000):
        assert len(table.add(segment(1, count, 7 * count, flags=SYN))) == (2 if count else 0)
    assert sum(map(len, table.deadlines().values())) == 1


# Numbers of flows


def test_a_flow_that_is_pushed_out_says_so() -> None:
    table = FlowTable(Stream, FlowLimits(max_flows=4))
    for port in range(4):
        table.add(segment(port, port, 100, flags=SYN))
    (first, _, items), (_, _, other) = table.add(segment(9, 9, 100, flags=SYN))
    assert first.end is End.EVICTED
    assert table.evicted == 1
    assert [item.anomaly for item in items if isinstance(item, Oddity)] == [Anomaly.EVICTED]
    assert other == []


def test_a_half_closed_flow_that_is_pushed_out_was_not_ended_by_the_sender_of_the_fin() -> None:
    table = FlowTable(Stream, FlowLimits(max_flows=1))
    table.add(segment(1, 1, 100, flags=SYN))
    table.add(segment(1, 2, 500, flags=SYN | ACK, back=True))
    table.add(segment(1, 3, 101, flags=FIN | ACK))
    (first, _, _), _ = table.add(segment(9, 9, 100, flags=SYN))
    assert (first.end, first.ended_by, first.ended_ns) == (End.EVICTED, None, None)


def test_a_closed_flow_that_is_pushed_out_keeps_its_end() -> None:
    table = FlowTable(Stream, FlowLimits(max_flows=1))
    table.add(segment(1, 1, 100, flags=SYN))
    table.add(segment(1, 2, 101, flags=4))
    flow, _, items = table.add(segment(2, 3, 100, flags=SYN))[0]
    assert (flow.end, items) == (End.RST, [])


# What waits


@pytest.mark.parametrize("reach", [1, 40])
def test_what_waits_in_all_streams_together_is_bounded(reach: int) -> None:
    """Flows whose first byte never comes; some hold much more than others."""
    limit = 100_000
    table = FlowTable(Stream, FlowLimits(held_bytes=limit))
    counts: Counter[type] = Counter()
    limits = missing = 0
    for port in range(50):
        table.add(segment(port, 1, 100, flags=SYN))
    sides = [side for _, side, _ in table._routes.values()]
    for count in range(3000):
        port = count % 50 if count % 3 else count % reach
        deliveries = table.add(segment(port, 2, 103 + 20 * count, b"x" * 10))
        for _, _, items in deliveries:
            counts.update(type(item) for item in items)
            limits += sum(i.length for i in items if isinstance(i, Oddity))
            missing += sum(i.length for i in items if isinstance(i, Gap))
        assert table._waiting_bytes <= limit
    assert sum(side.stream.held_bytes for side in sides) == table._waiting_bytes
    assert counts[Chunk] > 2000 and counts[Gap] == counts[Oddity]
    assert limits == missing == sum(side.stream.missing_bytes for side in sides)
    assert 0 < table.relieved < 1500


def test_nothing_need_wait() -> None:
    table = FlowTable(Stream, FlowLimits(held_bytes=0))
    table.add(segment(1, 1, 100, flags=SYN))
    ((_, _, items),) = table.add(segment(1, 1, 102, b"b"))
    assert [type(item) for item in items] == [Oddity, Gap, Chunk]
    assert table._waiting_bytes == 0


def test_who_holds_most_is_relieved_first() -> None:
    table = FlowTable(Stream, FlowLimits(held_bytes=20_000))
    for port in (1, 2):
        table.add(segment(port, 1, 100, flags=SYN))
    table.add(segment(1, 2, 200, b"x"))
    reported: set[Flow] = set()
    for count in range(60):
        delivered = table.add(segment(2, 2, 200 + 10 * count, b"x"))
        reported |= {flow for flow, _, _ in delivered}
    assert {flow.originator for flow in reported} == {"10.0.0.1:2"}
    assert table._routes[key_of(1)][1].stream.held


def test_what_waits_in_restored_flows_is_delivered_once_it_is_too_much() -> None:
    """As where tasks save flows that together hold more than one process may."""
    saved = []
    for port in (1, 2, 3):
        before = FlowTable(Stream)
        before.add(segment(port, 1, 100, flags=SYN))
        before.add(segment(port, 1, 102, b"b"))
        saved.append(before.deadlines())
    table = FlowTable(Stream, FlowLimits(held_bytes=0))
    for flows in saved:
        for flow, deadlines in flows.items():
            table.restore(flow, deadlines)
    assert table.relieved == 0 < table._waiting_bytes
    delivered = table.add(segment(4, 2, 100, flags=SYN))
    assert {flow.originator for flow, _, _ in delivered} == {f"10.0.0.1:{n}" for n in (1, 2, 3)}
    assert sum(isinstance(item, Gap) for _, _, items in delivered for item in items) == 3
    assert table._waiting_bytes == 0


def test_what_no_longer_waits_is_not_counted() -> None:
    table = FlowTable(Stream, FlowLimits(idle_ns=SECOND))
    for port in (1, 2, 3):
        table.add(segment(port, 1, 100, flags=SYN))
        table.add(segment(port, 1, 102, b"b"))
    each = table._waiting_bytes // 3
    assert each > 0
    table.add(segment(1, 2, 101, b"a"))
    assert table._waiting_bytes == 2 * each
    table.add(segment(2, 2, 777, flags=SYN))
    assert table._waiting_bytes == each
    table.tick(3 * SECOND)
    assert table._waiting_bytes == 0


def test_a_stream_that_holds_too_much_says_what_it_gave_up() -> None:
    table = FlowTable(lambda: Stream(Limits(held_segments=2)))
    table.add(segment(1, 1, 100, flags=SYN))
    items = [
        item
        for seq in (104, 108, 112)
        for _, _, some in table.add(segment(1, 2, seq, b"x"))
        for item in some
    ]
    assert [(type(i), i.offset, getattr(i, "length", 1)) for i in items] == [
        (Oddity, 0, 3),
        (Gap, 0, 3),
        (Chunk, 3, 1),
    ]


def test_flows_of_one_time_need_no_order() -> None:
    table = FlowTable(Stream, FlowLimits(idle_ns=SECOND))
    for port in range(500):
        table.add(segment(port, 1, 100, flags=SYN))
        table.add(segment(port, 1, 7000, flags=SYN))
    assert len(ended(table.tick(3 * SECOND))) == 500
