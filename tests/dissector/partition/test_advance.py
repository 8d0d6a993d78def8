"""What a summary makes of a state is what the packets make of it, or it is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dissect.nats.partition.chunk_summary import (
    Bytes,
    ChunkSummary,
    Deltas,
    FrameBatch,
    SkippedFrames,
)
from dissect.nats.types import Chunk, Segment

from tests.dissector.partition.advancing import (
    INFO,
    NAME,
    OPTIONS,
    TABLES,
    ScriptedFlow,
    advances,
    check,
    even,
    go_on,
    msg,
    opened,
    plain,
    pub,
    quiet,
    sample,
    steps,
    surveyed,
)
from tests.support.graphs import difference
from tests.support.tcp_conversation import ACK, FIN, RST, SYN


def test_plain_traffic_is_summed_up() -> None:
    flow = plain()
    start = flow.here
    go_on(flow, 200)
    packed = surveyed(flow.segments[start:])[NAME]
    payload_bytes = sum(len(segment.payload) for segment in flow.segments[start:])
    assert len(packed) < payload_bytes / 100
    assert sum(isinstance(step, (Deltas, FrameBatch)) for step in steps(flow.segments, start)) < 8
    assert advances(flow.segments, start)


@pytest.mark.parametrize("wire", [b"PING\r\n", b"SUB c 3\r\n", b"UNSUB 1\r\n", pub(b"bad.*")])
def test_frames_that_are_not_plain_are_batches_of_the_summary(wire: bytes) -> None:
    flow = plain()
    start = flow.here
    go_on(flow).say(0, wire)
    go_on(flow)
    assert any(isinstance(step, FrameBatch) for step in steps(flow.segments, start))
    assert advances(flow.segments, start)


def test_an_info_within_a_chunk_is_obeyed() -> None:
    flow = plain()
    start = flow.here
    go_on(flow).say(1, INFO.replace(b"1000", b"600"), 30)
    assert advances(flow.segments, start)
    go_on(flow)
    assert not advances(flow.segments, start)  # messages are too large by then


def test_a_message_over_several_packets_at_both_ends() -> None:
    flow = plain()
    flow.say(1, msg(b"a.b", 1, b"x" * 9000))
    start = flow.here - 4
    go_on(flow)
    flow.say(1, msg(b"a.b", 1, b"y" * 9000))
    assert advances(flow.segments, start, flow.here - 4)


def test_a_request_and_its_reply_in_two_partitions() -> None:
    flow = plain()
    flow.say(0, pub(b"ask", reply=b"r.1"))
    start = flow.here
    go_on(flow)
    assert advances(flow.segments, start)
    flow.say(1, msg(b"r.1", 2))
    go_on(flow)
    # Nobody can tell from the partition that it is one.
    assert not advances(flow.segments, start)


def test_an_inbox_is_recognized_by_its_name() -> None:
    flow = plain()
    flow.say(0, pub(b"ask", reply=b"_INBOX.abc.1"))
    start = flow.here
    go_on(flow).say(1, msg(b"_INBOX.abc.1", 2))
    go_on(flow)
    assert advances(flow.segments, start)


def test_the_last_message_of_a_subscription() -> None:
    flow = plain()
    flow.say(0, b"UNSUB 1 20\r\n")
    start = flow.here
    stop = go_on(flow, 5).here
    go_on(flow, 5)
    assert advances(flow.segments, start, stop)
    assert not advances(flow.segments, start)
    assert advances(flow.segments, flow.here - 8)  # after it


def test_messages_of_a_subscription_from_before() -> None:
    flow = plain()
    start = flow.here
    flow.say(1, msg(b"c", 9) * 2 + msg(b"c", 8) + msg(b"a.b", 1))
    go_on(flow)
    flow.say(1, msg(b"c", 7) + msg(b"c", 8))
    assert advances(flow.segments, start)


def test_bytes_that_may_not_begin_with_a_frame_are_not_advanced_over() -> None:
    flow = plain()
    start = flow.here
    for number in range(40):
        flow.say(1, msg(b"a.b", 1))
        if number == 20:
            flow.say(
                0, b"UNSUB 1 30\r\n"
            )  # nobody can tell whether this packet begins with a frame
    assert not advances(flow.segments, start)


def _publishing(greeted: bool) -> ScriptedFlow:
    flow = ScriptedFlow(greeted)
    for _ in range(20):
        flow.say(0, pub(b"orders.new"))
    return flow


@pytest.mark.parametrize("greeted", [True, False])
def test_an_operation_that_may_show_the_kind_prevents_advancing_until_it_is_confirmed(
    greeted: bool,
) -> None:
    flow = _publishing(greeted)
    start = flow.here
    for _ in range(20):
        flow.say(0, pub(b"orders.new"))
    assert advances(flow.segments, start)
    flow.say(0, b"HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\n")
    assert advances(flow.segments, start) is greeted


@pytest.mark.parametrize(("back_ns", "is_advanced"), [(9 * 10**7, True), (10**10, False)])
def test_times_that_go_back_do_not_prevent_advancing(back_ns: int, is_advanced: bool) -> None:
    flow = plain()
    for side in (0, 1):
        flow.raw(side, (pub(b"a"), msg(b"a.b", 1))[side], after_ns=10**10)
    start = flow.here
    flow.raw(0, b"", after_ns=-back_ns)
    go_on(flow)
    for _ in range(3):
        flow.say(0, b"PING\r\n")
        flow.say(1, b"PONG\r\n+OK\r\n")
    flow.say(1, b"+OK\r\n")
    assert (
        advances(flow.segments, start) is is_advanced
    )  # if the clock was set back, packets are read


def _garbage(summary: ChunkSummary) -> None:
    """Bytes of the other side, which are not a frame, while frames are skipped."""
    assert summary.steps
    at = next(at for at, step in enumerate(summary.steps) if isinstance(step, SkippedFrames))
    chunk = Chunk(10**18, 1, "a.pcap", 0, b"what is this\r\n")
    summary.steps.insert(at + 1, Bytes(1, chunk, True, False))


def test_frames_are_not_skipped_while_the_other_direction_seeks() -> None:
    flow = _publishing(True)
    start = flow.here
    for _ in range(20):
        flow.say(0, pub(b"orders.new"))
    assert advances(flow.segments, start)
    assert not advances(flow.segments, start, change=_garbage)


def test_acknowledgements_alone_advance_the_state() -> None:
    flow = plain()
    start = flow.here
    for side in (0, 1, 1):
        flow.raw(side, b"")
    assert advances(flow.segments, start)


def test_a_connection_without_nats_advances_its_counts() -> None:
    flow = ScriptedFlow(greeted=False)
    flow.raw(0, b"", SYN)
    flow.raw(1, b"", SYN | ACK)
    flow.say(0, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    flow.say(1, b"HTTP/1.1 200 OK\r\n\r\n")
    start = flow.here
    flow.say(1, bytes(50_000))
    assert advances(flow.segments, start)


def test_chunks_inside_tls_advance() -> None:
    """After the handshake, which is read packet by packet for its facts."""
    every = sample("tls-2.15.1.pcap")
    assert check(every, even(len(every), 8)).advanced > 2


def _spoiled(how: str) -> tuple[list[Segment], int, int]:
    flow = plain()
    start = flow.here
    go_on(flow)
    middle = flow.here
    go_on(flow)
    every = flow.segments
    pairs = range(middle, len(every) - 1)
    at = next(at for at in pairs if every[at].length > 100 and every[at].key == every[at + 1].key)
    segment = every[at]
    if how == "lost":
        del every[at]
    elif how == "twice":
        every.insert(at, segment)
    elif how == "swapped":
        every[at : at + 2] = [every[at + 1], segment]
    elif how == "cut":
        every[at] = replace(segment, payload=segment.payload[:-10])
    elif how == "probe":
        every.insert(at, replace(segment, seq=segment.seq - 1, payload=b"\0", length=1))
    else:
        flags = {"fin": FIN | ACK, "rst": RST, "syn": SYN, "nothing": 0}[how]
        every[at] = replace(segment, flags=flags)
    return every, start, middle


@pytest.mark.parametrize("how", "lost twice swapped cut probe fin rst syn nothing".split())
def test_a_partition_that_is_not_clean_has_no_summary(how: str) -> None:
    every, start, middle = _spoiled(how)
    assert advances(every, start, middle)
    assert list(surveyed(every[start:])) == []


@pytest.mark.parametrize("how", "lost twice swapped cut fin rst".split())
def test_a_state_that_is_not_steady_advances_exactly_or_is_refused(how: str) -> None:
    every, _, middle = _spoiled(how)
    for after in range(1, 6):
        advances(every, middle + after)


@pytest.mark.parametrize("flags", [FIN | ACK, RST])
@pytest.mark.parametrize("side", [0, 1])
def test_a_flow_that_has_begun_to_close_does_not_advance(flags: int, side: int) -> None:
    flow = plain()
    flow.raw(side, b"", flags)
    start = flow.here
    go_on(flow) if flags & RST else flow.say(1 - side, [pub(b"a"), msg(b"a.b", 1)][side])
    assert not advances(flow.segments, start)


def test_bytes_that_wait_in_the_other_direction_prevent_advancing() -> None:
    flow = plain()
    lost = flow.here
    flow.raw(0, pub(b"a"))
    flow.raw(0, pub(b"a"))
    for _ in range(20):
        flow.raw(1, msg(b"a.b", 1))
    every = flow.segments[:lost] + flow.segments[lost + 1 :]
    assert not advances(every, lost + 1)


def test_states_before_and_after_tls_begins_advance_exactly() -> None:
    every = sample("tls-2.15.1.pcap")[:60]
    assert sum(check(every, [at, at + 4]).advanced for at in range(1, len(every) - 5))


@pytest.mark.parametrize("name", ["websocket-2.15.1.pcap", "leafnode-s2-2.15.1.pcap"])
def test_a_layer_below_nats_is_read_in_order(name: str) -> None:
    every = sample(name)[:60]
    for at in range(1, len(every) - 5):
        check(every, [at, at + 4])


def _first_is_missing(every: list[Segment], start: int) -> None:
    del every[next(at for at in range(start - 3, start) if every[at].length)]


def test_bytes_missing_right_before_the_chunk_prevent_advancing() -> None:
    flow = plain()
    start = flow.here
    go_on(flow)
    every = list(flow.segments)
    _first_is_missing(every, start)
    assert not advances(every, start - 1)


def _wrong_context(summary: ChunkSummary) -> None:
    for step in summary.steps or []:
        if isinstance(step, SkippedFrames):
            step.context = step.context.replace(dedicated=True)


def _wrong_start(summary: ChunkSummary) -> None:
    for step in summary.steps or []:
        if isinstance(step, SkippedFrames):
            step.start += 1


def _wrong_sequence(summary: ChunkSummary) -> None:
    summary.directions[0].first_seq += 1


def _too_late(summary: ChunkSummary) -> None:
    summary.latest_ns += 48 * 3600 * 10**9


def _no_steps(summary: ChunkSummary) -> None:
    summary.steps = None


def _wrong_flow(summary: ChunkSummary) -> None:
    summary.directions[0].key = b"?" * 12


def _loud(summary: ChunkSummary) -> None:
    for step in summary.steps or []:
        if isinstance(step, Bytes):
            step.silent = True


def _in_parts(summary: ChunkSummary) -> None:
    """Bytes that are said to be part of a packet, for a stream that still seeks."""
    for step in summary.steps or []:
        if isinstance(step, Bytes):
            step.whole = False


@pytest.mark.parametrize(
    "change",
    [_wrong_context, _wrong_start, _wrong_sequence, _too_late, _no_steps, _wrong_flow, _loud],
)
def test_a_summary_of_other_bytes_is_refused(change: Callable[[ChunkSummary], None]) -> None:
    flow = plain()
    start = flow.here
    go_on(flow)
    assert advances(flow.segments, start)
    assert not advances(flow.segments, start, change=change)


def test_a_stream_that_seeks_takes_whole_packets_only() -> None:
    flow = ScriptedFlow(greeted=False)
    flow.say(0, b"x" * 100 + b"\r\n" + pub(b"a.b")[:300], 100)
    start = flow.here
    flow.say(0, pub(b"a.b")[300:])
    assert not advances(flow.segments, start, change=_in_parts)


def test_a_dissector_advances_itself() -> None:
    flow = plain()
    start = flow.here
    go_on(flow)
    dissection = quiet(TABLES, OPTIONS)
    list(dissection.feed(flow.segments[:start]))
    left = dissection._table_builder.quota.left
    summary = surveyed(flow.segments[start:])[NAME]
    assert dissection.advance(NAME, summary)
    assert dissection._table_builder.quota.left == left
    assert not dissection.advance(NAME, summary)  # the flow is past it
    assert not dissection.advance(b"?", summary)
    other = quiet(TABLES, OPTIONS)
    list(other.feed(flow.segments))
    assert not difference(opened(dissection.save()[NAME]), opened(other.save()[NAME]))
