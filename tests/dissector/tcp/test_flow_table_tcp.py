"""TCP as it really happens, packet by packet, through flows and reassembly."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.tcp.flow import End, Flow
from dissect.nats.tcp.flow_table import FlowTable
from dissect.nats.tcp.limits import FlowLimits, Limits
from dissect.nats.tcp.reassembly import Stream
from dissect.nats.types import Chunk, Direction, Gap, Oddity, Segment

from tests.support.pcapwriter import Conversation
from tests.support.segments import segments_of

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
MS, SECOND = 10**6, 10**9
A, B = (key.key for key in segments_of(Conversation().handshake().records[:2]))


class Wire:
    """Packets of two hosts A and B, written down by hand; a millisecond passes with each."""

    def __init__(self, limits: FlowLimits | None = None, streams: Limits | None = None) -> None:
        self.table = FlowTable(lambda: Stream(streams or Limits()), limits or FlowLimits())
        self.now_ns = SECOND
        self.flows: dict[Flow, None] = {}
        self.streams: dict[tuple[Flow, Direction], bytes] = {}
        self.gaps: dict[tuple[Flow, Direction], list[tuple[int, int]]] = {}
        self.odd: list[Anomaly] = []

    def __call__(
        self, key: bytes, flags: int, seq: int, ack: int = 0, data: bytes = b"", size: int = 0
    ) -> None:
        self.now_ns += MS
        size = size or len(data)
        mask = 0xFFFFFFFF
        number = self.now_ns // MS
        self.take(
            Segment(self.now_ns, number, "t.pcap", key, seq & mask, ack & mask, flags, data, size)
        )

    def take(self, segment: Segment) -> None:
        self._note(self.table.add(segment))

    def _note(self, deliveries: Iterable[tuple[Flow, Direction, object]]) -> None:
        for flow, way, items in deliveries:
            self.flows[flow] = None
            assert isinstance(items, list)
            for item in items:
                if isinstance(item, Chunk):
                    self.streams[flow, way] = self.streams.get((flow, way), b"") + item.data
                elif isinstance(item, Gap):
                    self.gaps.setdefault((flow, way), []).append((item.offset, item.length))
                elif isinstance(item, Oddity):
                    self.odd.append(item.anomaly)

    def opens(self, a: int = 100, b: int = 500) -> Wire:
        """A connects to B."""
        self(A, SYN, a)
        self(B, SYN | ACK, b, a + 1)
        self(A, ACK, a + 1, b + 1)
        return self

    def finish(self) -> list[Flow]:
        """The flows, by their beginnings."""
        self._note(self.table.finish())
        return sorted(self.flows, key=lambda flow: flow.first_ns)

    def texts(self, flow: Flow) -> tuple[bytes, bytes]:
        """The bytes of originator and responder."""
        one, other = (self.streams.get((flow, way), b"") for way in Direction)
        return one, other


# Opening


@pytest.mark.parametrize("taken", [True, False])
def test_a_syn_with_data_says_it_once_whether_it_was_taken_or_not(taken: bool) -> None:
    wire = Wire()
    wire(A, SYN, 100, data=b"early")
    wire(B, SYN | ACK, 500, 106 if taken else 101)
    if not taken:
        wire(A, PSH | ACK, 101, 501, b"early")
    wire(A, PSH | ACK, 106, 501, b" bird")
    (flow,) = wire.finish()
    assert wire.texts(flow) == (b"early bird", b"")
    assert flow.side(Direction.ORIGINATOR).stream.retransmitted_bytes == (0 if taken else 5)


def test_both_may_open_at_once() -> None:
    wire = Wire()
    wire(A, SYN, 100)
    wire(B, SYN, 500)
    wire(A, SYN | ACK, 100, 501)
    wire(B, SYN | ACK, 500, 101)
    wire(A, PSH | ACK, 101, 501, b"a")
    wire(B, PSH | ACK, 501, 102, b"b")
    (flow,) = wire.finish()
    assert (flow.originator, flow.midstream) == ("10.0.0.1:40000", False)
    assert wire.texts(flow) == (b"a", b"b")


def test_syns_are_repeated_until_they_are_answered() -> None:
    wire = Wire()
    for _ in range(3):
        wire(A, SYN, 100)
    wire(B, SYN | ACK, 500, 101)
    wire(B, SYN | ACK, 500, 101)
    wire(A, PSH | ACK, 101, 501, b"a")
    (flow,) = wire.finish()
    assert wire.texts(flow) == (b"a", b"")
    assert not wire.odd


def test_an_answer_with_another_number_is_another_attempt() -> None:
    wire = Wire()
    wire(A, SYN, 100)
    wire(B, SYN | ACK, 500, 101)
    wire(B, SYN | ACK, 9000, 101)
    wire(A, PSH | ACK, 101, 9001, b"a")
    wire(B, PSH | ACK, 9001, 102, b"b")
    first, second = wire.finish()
    assert wire.texts(first) == (b"", b"")
    assert (second.originator, second.midstream) == ("10.0.0.1:40000", False)
    assert wire.texts(second) == (b"a", b"b")


def test_a_refused_attempt_is_repeated_with_the_same_number() -> None:
    wire = Wire()
    for _ in range(2):
        wire(A, SYN, 100)
        wire(B, RST | ACK, 0, 101)
    wire.opens(100, 500)
    wire(A, PSH | ACK, 101, 501, b"a")
    flows = wire.finish()
    assert [flow.end for flow in flows] == [End.RST, End.RST, End.OPEN]
    assert [flow.ended_by for flow in flows] == [Direction.RESPONDER, Direction.RESPONDER, None]
    assert wire.texts(flows[-1]) == (b"a", b"")


def test_a_collision_of_numbers_after_a_close_shows_in_the_answer() -> None:
    wire = Wire().opens(100, 500)
    wire(A, PSH | ACK, 101, 501, b"one")
    wire(A, FIN | ACK, 104, 501)
    wire(B, FIN | ACK, 501, 105)
    wire(A, ACK, 105, 502)
    wire(A, SYN, 100)
    wire(B, SYN | ACK, 7000, 101)
    wire(A, PSH | ACK, 101, 7001, b"two")
    wire(B, ACK, 7001, 104)
    first, second = wire.finish()
    assert (wire.texts(first)[0], wire.texts(second)[0]) == (b"one", b"two")


# The same ports again


@pytest.mark.parametrize("end", ["fin", "rst", "none"])
def test_ports_are_used_by_one_connection_after_the_other(end: str) -> None:
    wire = Wire()
    for count in range(4):
        a, b = 1000 + 70_000 * count, 0xFFFFFFF0 + 90_000 * count
        wire.opens(a, b)
        wire(A, PSH | ACK, a + 1, b + 1, b"a%d" % count)
        wire(B, PSH | ACK, b + 1, a + 3, b"b%d" % count)
        if end == "fin":
            wire(B, FIN | ACK, b + 3, a + 3)
            wire(A, FIN | ACK, a + 3, b + 4)
            wire(B, ACK, b + 4, a + 4)
        elif end == "rst":
            wire(B, RST, b + 3)
    flows = wire.finish()
    assert [wire.texts(flow) for flow in flows] == [
        (b"a%d" % count, b"b%d" % count) for count in range(4)
    ]
    assert {flow.end.value for flow in flows} == {"open" if end == "none" else end}
    assert len({flow.id for flow in flows}) == 4
    assert not wire.odd and not wire.gaps


@pytest.mark.parametrize("flags", [FIN | ACK, RST])
def test_ports_are_used_again_and_the_opening_is_not_captured(flags: int) -> None:
    wire = Wire().opens(100, 500)
    wire(A, PSH | ACK, 101, 501, b"old")
    wire(A, flags, 104, 501)
    wire(B, FIN | ACK, 501, 105)
    wire(A, PSH | ACK, 3_000_000_000, 2_000_000_000, b"new")
    wire(B, PSH | ACK, 2_000_000_000, 3_000_000_003, b"born")
    first, second = wire.finish()
    assert (wire.texts(first), wire.texts(second)) == ((b"old", b""), (b"new", b"born"))
    assert second.midstream
    assert not wire.odd


# Middle


def test_keep_alives_create_nothing() -> None:
    wire = Wire().opens()
    wire(A, PSH | ACK, 101, 501, b"PING\r\n")
    for size in (0, 1, 1):
        wire(A, ACK, 106, 501, b"\0"[:size])
        wire(B, ACK, 501, 107)
        wire(B, ACK, 500, 107, b"\0"[:size])
        wire(A, ACK, 107, 501)
    wire(B, PSH | ACK, 501, 107, b"PONG\r\n")
    (flow,) = wire.finish()
    assert wire.texts(flow) == (b"PING\r\n", b"PONG\r\n")
    assert [side.stream.retransmitted_bytes for side in flow.sides] == [0, 0]
    assert not wire.odd and not wire.gaps


def test_midstream_a_keep_alive_is_no_beginning() -> None:
    wire = Wire()
    wire(A, ACK, 106, 501, b"\0")
    wire(B, ACK, 501, 107)
    wire(A, PSH | ACK, 107, 501, b"PING\r\n")
    wire(B, PSH | ACK, 501, 113, b"PONG\r\n")
    (flow,) = wire.finish()
    assert wire.texts(flow) == (b"PING\r\n", b"PONG\r\n")


def test_a_keep_alive_after_a_loss_is_no_byte_of_the_stream() -> None:
    wire = Wire().opens()
    wire(B, ACK, 501, 107)
    wire(A, ACK, 106, 501, b"\0")
    (flow,) = wire.finish()
    assert wire.texts(flow) == (b"", b"")
    assert wire.gaps == {(flow, Direction.ORIGINATOR): [(0, 6)]}


def test_a_zero_window_is_probed_with_the_next_byte() -> None:
    wire = Wire().opens()
    wire(A, PSH | ACK, 101, 501, b"full")
    wire(B, ACK, 501, 105)
    for _ in range(3):
        wire(A, ACK, 105, 501, b"m")
        wire(B, ACK, 501, 105)
        wire(A, ACK, 104, 501)  # Linux probes without a byte
        wire(B, ACK, 501, 105)
    wire(A, PSH | ACK, 105, 501, b"more")
    (flow,) = wire.finish()
    assert wire.texts(flow) == (b"fullmore", b"")
    assert not wire.odd and not wire.gaps


def test_one_direction_alone_is_read_like_two() -> None:
    wire = Wire()
    wire(A, PSH | ACK, 101, 501, b"one")
    wire(A, PSH | ACK, 104, 900, b"two")
    wire(A, FIN | ACK, 107, 900)
    wire.now_ns += 61 * SECOND
    wire(A, PSH | ACK, 5000, 1, b"three")
    first, second = wire.finish()
    assert wire.odd == [Anomaly.ONE_DIRECTION] * 2
    assert wire.texts(first) == (b"onetwo", b"")
    assert (first.end, first.over) == (End.FIN, True)
    assert wire.texts(second) == (b"three", b"")


@pytest.mark.parametrize("shift", [0, 3, 10])
def test_two_taps_show_everything_twice(shift: int) -> None:
    conversation = (
        Conversation().handshake().from_server(b"INFO").from_client(b"CONNECT").from_client(b"PING")
    )
    conversation.from_server(b"PONG").close()
    records = conversation.records
    doubled = sorted(
        [(at, 0, record) for at, record in enumerate(records)]
        + [(at + shift, 1, record) for at, record in enumerate(records)],
        key=lambda place: place[:2],
    )
    wire = Wire()
    for segment in segments_of(record for _, _, record in doubled):
        wire.take(segment)
    (flow,) = wire.finish()
    assert wire.texts(flow) == (b"CONNECTPING", b"INFOPONG")
    assert flow.end is End.FIN
    assert not wire.odd and not wire.gaps


def test_a_jump_of_any_size_is_ahead() -> None:
    """Files are missing between two that were captured."""
    for jump in (1 << 20, 1 << 30, (1 << 31) + 5, (3 << 30) - 100):
        wire = Wire().opens()
        wire(A, PSH | ACK, 101, 501, b"old")
        for count in range(20):
            wire(A, PSH | ACK, 104 + jump + count, 501, b"x")
            wire(B, ACK, 501, 105 + jump + count)
        (flow,) = wire.finish()
        assert wire.texts(flow) == (b"old" + b"x" * 20, b"")
        assert wire.gaps == {(flow, Direction.ORIGINATOR): [(3, jump)]}


def test_an_ack_of_what_cannot_have_been_sent_proves_nothing() -> None:
    wire = Wire().opens()
    wire(A, PSH | ACK, 101, 501, b"all")
    wire(B, ACK, 501, 104 + (1 << 31))
    wire.finish()
    assert not wire.gaps


# Ends


def test_one_side_may_go_on_when_the_other_is_finished() -> None:
    wire = Wire().opens()
    wire(A, FIN | ACK, 101, 501)
    wire(B, ACK, 501, 102)
    for count in range(3):
        wire.now_ns += 100 * SECOND
        wire(B, PSH | ACK, 501 + count, 102, b"b")
    wire(B, FIN | ACK, 504, 102)
    wire(B, FIN | ACK, 504, 102)
    wire(A, ACK, 102, 505)
    (flow,) = wire.finish()
    assert wire.texts(flow) == (b"", b"bbb")
    assert (flow.end, flow.ended_by) == (End.FIN, Direction.ORIGINATOR)
    assert not wire.odd and not wire.gaps


def test_a_side_that_shows_up_late_keeps_a_flow_open() -> None:
    wire = Wire()
    wire(A, FIN | ACK, 101, 501)
    wire(B, PSH | ACK, 501, 102, b"b")
    wire.now_ns += 100 * SECOND
    wire(B, PSH | ACK, 502, 102, b"b")
    (flow,) = wire.finish()
    assert wire.streams[flow, Direction.RESPONDER] == b"bb"


def test_bytes_after_a_fin_are_left_out_and_named() -> None:
    wire = Wire().opens()
    wire(A, FIN | PSH | ACK, 101, 501, b"end")
    wire(A, PSH | ACK, 105, 501, b"more")
    (flow,) = wire.finish()
    assert wire.texts(flow) == (b"end", b"")
    assert wire.odd == [Anomaly.DATA_AFTER_FIN]


@pytest.mark.parametrize("away", [-(1 << 30), 1 << 30, 1 << 31])
def test_a_reset_from_elsewhere_ends_nothing(away: int) -> None:
    wire = Wire().opens()
    wire(B, PSH | ACK, 501, 101, b"one")
    wire(B, RST, 504 + away)
    wire.now_ns += 100 * SECOND
    wire(B, PSH | ACK, 504, 101, b"two")
    (flow,) = wire.finish()
    assert wire.texts(flow) == (b"", b"onetwo")
    assert (flow.end, flow.ended_by) == (End.OPEN, None)
    assert wire.odd == [Anomaly.RST_OUT_OF_WINDOW]


@pytest.mark.parametrize("pause", [0, 100])
def test_a_reset_that_nobody_believed_ends_nothing(pause: int) -> None:
    wire = Wire().opens()
    wire(A, RST, 101)
    wire(A, PSH | ACK, 101, 501, b"one")
    wire.now_ns += pause * SECOND
    wire(A, PSH | ACK, 104, 501, b"two")
    (flow,) = wire.finish()
    assert wire.texts(flow) == (b"onetwo", b"")
    assert (flow.end, flow.ended_by) == (End.OPEN, None)


def test_late_bytes_of_before_a_reset_do_not_undo_it() -> None:
    wire = Wire().opens()
    wire(A, RST | ACK, 104, 501)
    wire(A, PSH | ACK, 101, 501, b"one")
    (flow,) = wire.finish()
    assert wire.texts(flow) == (b"one", b"")
    assert (flow.end, flow.ended_by) == (End.RST, Direction.ORIGINATOR)
