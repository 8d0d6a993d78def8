"""Reassembly, case by case: repetition, gaps, the start, the end, and what each of them is called."""

from __future__ import annotations

import pytest

from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.tcp.limits import Limits
from dissect.nats.tcp.reassembly import Stream
from dissect.nats.types import Chunk, Gap, Item

from tests.support.segments import (
    BASE,
    ISN,
    acking,
    data_of,
    gaps,
    oddities,
    opened,
    run,
    segment,
    syn,
)
from tests.support.tcp_conversation import ACK, FIN, SYN

# In order


def test_the_next_segment_is_handed_up_at_once() -> None:
    stream = opened()
    assert stream.push(segment(BASE, b"PING", ms=3)) == [Chunk(3 * 10**6, 4, "t.pcap", 0, b"PING")]
    assert stream.push(segment(BASE + 4, b"\r\n", ms=4)) == [
        Chunk(4 * 10**6, 5, "t.pcap", 4, b"\r\n")
    ]
    assert stream.finish() == []


def test_a_syn_may_carry_data() -> None:
    stream = Stream()
    items = stream.push(segment(ISN, b"early", SYN)) + stream.push(segment(BASE + 5, b" bird"))
    assert data_of(items) == b"early bird"


def test_a_repeated_syn_changes_nothing() -> None:
    stream = opened()
    items = (
        stream.push(segment(BASE, b"a")) + stream.push(syn()) + stream.push(segment(BASE + 1, b"b"))
    )
    assert data_of(items) == b"ab"


def test_offsets_go_on_beyond_4_gib() -> None:
    stream = opened()
    step = 1 << 24
    items: list[Item] = []
    for count in range(258):
        items += stream.push(segment(BASE + count * step, b"x", length=step))
    assert stream.offset == 258 * step > 1 << 32
    assert data_of(items) == b"x" * 258


def test_bare_acks_are_nothing() -> None:
    stream = opened()
    assert stream.push(segment(BASE)) == []
    assert stream.push(segment(BASE + 500)) == []
    assert stream.finish() == []
    assert stream.offset == 0


# Repetition


def test_a_probe_before_the_first_byte_repeats_nothing() -> None:
    """Keep-alives have the number before the next byte, and may have a byte of garbage."""
    stream = opened()
    assert stream.push(segment(BASE - 1, b"\0")) == []
    assert (stream.retransmitted_bytes, stream.duplicate_bytes) == (0, 0)
    assert data_of(stream.push(segment(BASE, b"PING"))) == b"PING"


def test_bytes_before_the_first_one_are_left_out() -> None:
    stream = opened()
    assert data_of(stream.push(segment(BASE - 1, b"\0PI"))) == b"PI"
    assert data_of(stream.push(segment(BASE + 2, b"NG"))) == b"NG"
    assert stream.retransmitted_bytes == 0


def test_a_segment_that_waited_may_have_no_captured_byte() -> None:
    stream = opened()
    assert stream.push(segment(BASE + 4, b"", length=3)) == []
    items = stream.push(segment(BASE, b"PING"))
    assert data_of(items) == b"PING"
    assert gaps(items) == [(4, 3, True)]


def test_a_retransmission_is_only_counted() -> None:
    stream, items = run(
        [segment(BASE, b"abcd"), segment(BASE, b"abcd"), segment(BASE + 2, b"cdef")]
    )
    assert data_of(items) == b"abcdef"
    assert stream.retransmitted_bytes == 6
    assert stream.out_of_order == 0


def test_a_second_copy_that_differs_is_reported_and_the_first_counts() -> None:
    stream, items = run([segment(BASE, b"abcd"), segment(BASE + 2, b"cXef")])
    assert data_of(items) == b"abcdef"
    assert oddities(items) == [(Anomaly.OVERLAP_DIFFERS, 2, 2)]
    assert stream.retransmitted_bytes == 2


def test_a_copy_that_differs_from_bytes_that_wait_is_reported() -> None:
    stream, items = run(
        [segment(BASE + 4, b"efgh"), segment(BASE, b"abcdEF"), segment(BASE + 6, b"gh")]
    )
    assert data_of(items) == b"abcdefgh"
    assert oddities(items) == [(Anomaly.OVERLAP_DIFFERS, 4, 2)]
    assert stream.out_of_order == 1


def test_keep_alive_probes_are_no_repetition() -> None:
    stream = opened()
    items = stream.push(segment(BASE, b"abcd"))
    items += stream.push(segment(BASE + 3, b"\0")) + stream.push(segment(BASE + 3))
    assert data_of(items) == b"abcd"
    assert oddities(items) == []
    assert stream.retransmitted_bytes == 0


def test_a_zero_where_nothing_is_missing_for_the_receiver_is_a_probe() -> None:
    stream = opened()
    stream.acked(acking(10))
    assert stream.push(segment(BASE + 9, b"\0")) == []
    assert stream.held == []
    assert stream.push(segment(BASE + 10, b"\0")) == []
    assert len(stream.held) == 1


def test_a_last_byte_with_a_fin_is_no_probe() -> None:
    stream = Stream()
    stream.push(segment(BASE, b"\0", FIN | ACK))
    assert data_of(stream.finish()) == b"\0"


def test_a_segment_across_several_gaps_fills_them_all() -> None:
    stream = opened()
    assert stream.push(segment(BASE + 8, b"ij")) == []
    assert stream.push(segment(BASE + 4, b"ef")) == []
    items = stream.push(segment(BASE + 1, b"bcdefghijkl"))
    assert items == []
    items = stream.push(segment(BASE, b"a"))
    assert data_of(items) == b"abcdefghijkl"
    assert [item.offset for item in items] == [0, 1, 4, 6, 8, 10]
    assert stream.retransmitted_bytes == 4


# Holes


def test_a_gap_is_filled_by_a_late_segment() -> None:
    stream = opened()
    assert stream.push(segment(BASE + 2, b"cd", ms=1)) == []
    items = stream.push(segment(BASE, b"ab", ms=2))
    assert items == [Chunk(2 * 10**6, 3, "t.pcap", 0, b"ab"), Chunk(10**6, 2, "t.pcap", 2, b"cd")]
    assert stream.out_of_order == 1
    assert data_of(stream.push(segment(BASE + 4, b"ef"))) == b"ef"


def test_an_acknowledged_gap_is_reported_after_some_packets() -> None:
    stream = opened(Limits(patience_packets=3))
    stream.push(segment(BASE + 10, b"later", ms=7))
    assert stream.acked(acking(15)) == []
    assert stream.acked(acking(15)) == []
    assert stream.acked(acking(15)) == []
    assert stream.acked(acking(15)) == [
        Gap(7 * 10**6, 8, "t.pcap", 0, 10),
        Chunk(7 * 10**6, 8, "t.pcap", 10, b"later"),
    ]
    assert stream.missing_bytes == 10


def test_an_acknowledged_gap_is_reported_after_a_moment() -> None:
    stream = opened(Limits(patience_ns=50 * 10**6))
    stream.push(segment(BASE + 10, b"later", ms=7))
    assert stream.acked(acking(15, ms=10)) == []
    assert stream.acked(acking(15, ms=59)) == []
    assert gaps(stream.push(segment(BASE + 15, b"more", ms=60))) == [(0, 10, False)]


def test_a_gap_may_be_acknowledged_before_what_follows_it_comes() -> None:
    stream = opened(Limits(patience_packets=1))
    assert stream.acked(acking(15)) == []
    assert stream.push(segment(BASE + 10, b"later")) == []
    assert gaps(stream.push(segment(BASE + 15, b"more"))) == [(0, 10, False)]


def test_gaps_known_to_be_lost_go_together_and_newer_ones_wait_their_turn() -> None:
    stream = opened(Limits(patience_packets=1))
    for start in (2, 6, 10):
        stream.push(segment(BASE + start, b"xx"))
    assert stream.acked(acking(8)) == []
    assert gaps(stream.acked(acking(12))) == [(0, 2, False), (4, 2, False)]
    assert stream.acked(acking(12)) == []
    assert gaps(stream.acked(acking(12))) == [(8, 2, False)]


def test_a_gap_nobody_acknowledged_waits() -> None:
    stream = opened(Limits(patience_packets=1))
    stream.push(segment(BASE + 10, b"later"))
    for _ in range(5):
        assert stream.acked(acking(9)) == []
    assert gaps(stream.finish()) == [(0, 10, False)]


@pytest.mark.parametrize("limits", [Limits(held_bytes=20), Limits(held_segments=2)])
def test_no_more_waits_than_the_limits_allow(limits: Limits) -> None:
    stream = opened(limits)
    assert stream.push(segment(BASE + 10, b"x" * 10)) == []
    assert stream.push(segment(BASE + 30, b"x" * 10)) == []
    assert gaps(stream.push(segment(BASE + 50, b"x" * 10))) == [(0, 10, False)]
    assert len(stream.held) == 2


def test_gaps_that_are_given_up_for_a_limit_say_so() -> None:
    stream = opened(Limits(held_segments=1))
    stream.push(segment(BASE + 10, b"x"))
    items = stream.push(segment(BASE + 20, b"y"))
    assert oddities(items) == [(Anomaly.LIMIT, 0, 10)]
    assert gaps(items) == [(0, 10, False)]


@pytest.mark.parametrize("known", [True, False])
def test_a_stream_can_be_relieved_of_all_that_waits(known: bool) -> None:
    stream = opened() if known else Stream()
    stream.push(segment(BASE + 5, b"xx"))
    stream.push(segment(BASE + 10, b"y"))
    assert stream.held_bytes > 2 * 100
    items = stream.relieve()
    assert data_of(items) == b"xxy"
    assert gaps(items) == ([(0, 5, False), (7, 3, False)] if known else [(2, 3, False)])
    assert [name for name, _, _ in oddities(items)] == [Anomaly.LIMIT] * len(gaps(items))
    assert stream.held_bytes == 0
    assert stream.relieve() == []


def test_the_end_of_the_capture_closes_the_gaps() -> None:
    _, items = run([segment(BASE + 2, b"cd"), segment(BASE + 6, b"gh")])
    assert gaps(items) == [(0, 2, False), (4, 2, False)]


def test_bytes_that_were_acknowledged_but_never_seen_are_missing_at_the_end() -> None:
    stream = opened()
    stream.push(segment(BASE, b"abcd"))
    stream.ack = acking(10, ms=9)
    assert stream.finish() == [Gap(9 * 10**6, 10, "t.pcap", 4, 6)]


def test_the_number_of_an_unseen_fin_is_no_missing_byte() -> None:
    stream = opened()
    stream.push(segment(BASE, b"abcd"))
    stream.ack = acking(5)
    assert stream.finish() == []


# Where a number is


def test_numbers_are_ahead_unless_they_lie_a_window_behind() -> None:
    stream = opened()
    stream.push(segment(BASE, b"abcd"))
    window = 1 << 30
    assert stream.position(BASE + 4) == 4
    assert stream.position(BASE + 4 - window) == 4 - window
    assert stream.position(BASE + 3 - window) == (1 << 32) + 3 - window


def test_a_number_is_near_within_what_hosts_use() -> None:
    stream = opened()
    assert stream.near(BASE + (64 << 20)) and stream.near(BASE - (64 << 20))
    assert not stream.near(BASE + (64 << 20) + 1) and not stream.near(BASE - (64 << 20) - 1)
    assert Stream().near(77) and Stream().position(77) == 0


# The end of the stream


def test_a_fin_says_where_the_stream_ends() -> None:
    stream = opened()
    assert data_of(stream.push(segment(BASE, b"abcd", FIN | ACK))) == b"abcd"
    late = stream.push(segment(BASE + 2, b"cdEF"))
    assert data_of(late) == b""
    assert oddities(late) == [(Anomaly.DATA_AFTER_FIN, 4, 2)]
    assert oddities(stream.push(segment(BASE + 9, b"x"))) == [(Anomaly.DATA_AFTER_FIN, 9, 1)]
    assert stream.push(segment(BASE + 4, flags=FIN | ACK)) == []
    assert stream.finish() == []


def test_what_a_fin_proves_to_be_missing_is_a_gap() -> None:
    _, items = run([segment(BASE, b"ab"), segment(BASE + 10, flags=FIN | ACK)])
    assert gaps(items) == [(2, 8, False)]


def test_a_fin_before_the_data_it_follows() -> None:
    stream = opened()
    items = stream.push(segment(BASE + 4, b"ef", FIN | ACK)) + stream.push(segment(BASE, b"abcd"))
    assert data_of(items + stream.finish()) == b"abcdef"


def test_a_fin_before_the_present_offset_is_ignored() -> None:
    stream = opened()
    items = stream.push(segment(BASE, b"abcd")) + stream.push(segment(BASE, b"ab", FIN | ACK))
    items += stream.push(segment(BASE + 4, b"ef"))
    assert data_of(items) == b"abcdef"


# Midstream


def test_midstream_the_first_segments_wait_for_earlier_ones() -> None:
    stream = Stream(Limits(start_segments=3))
    assert stream.push(segment(BASE + 4, b"ef")) == []
    assert stream.push(segment(BASE + 2, b"cd")) == []
    items = stream.push(segment(BASE, b"ab"))
    assert [(item.offset, item.data) for item in items if isinstance(item, Chunk)] == [
        (0, b"ab"),
        (2, b"cd"),
        (4, b"ef"),
    ]


def test_midstream_an_ack_settles_the_start() -> None:
    stream = Stream()
    assert stream.push(segment(BASE, b"ab")) == []
    assert stream.acked(acking(0)) == []
    assert data_of(stream.acked(acking(2))) == b"ab"
    assert data_of(stream.push(segment(BASE + 2, b"cd"))) == b"cd"


def test_midstream_a_moment_settles_the_start() -> None:
    stream = Stream()
    assert stream.push(segment(BASE, b"ab")) == []
    assert data_of(stream.push(segment(BASE + 2, b"cd", ms=1000))) == b"abcd"


def test_midstream_what_comes_too_late_is_reported() -> None:
    stream = Stream(Limits(start_segments=1))
    assert data_of(stream.push(segment(BASE, b"ab"))) == b"ab"
    items = stream.push(segment(BASE - 4, b"wxyzabcd"))
    assert data_of(items) == b"cd"
    assert oddities(items) == [(Anomaly.DATA_BEFORE_START, -4, 4)]
    assert oddities(stream.push(segment(BASE - 9, b"pq"))) == [(Anomaly.DATA_BEFORE_START, -9, 2)]
    assert stream.retransmitted_bytes == 2


def test_midstream_a_late_syn_settles_the_start() -> None:
    stream = Stream()
    assert stream.push(segment(BASE + 2, b"cd")) == []
    assert stream.push(segment(BASE + 4, flags=FIN | ACK)) == []
    assert stream.push(syn()) == []
    items = stream.push(segment(BASE, b"ab"))
    assert data_of(items) == b"abcd"
    assert stream.finish() == []


def test_midstream_a_syn_may_be_later_than_what_it_opened() -> None:
    stream = Stream(Limits(start_segments=1))
    items = (
        stream.push(segment(BASE, b"ab"))
        + stream.push(syn())
        + stream.push(segment(BASE + 2, b"cd"))
    )
    assert data_of(items) == b"abcd"
    assert stream.isn == ISN


def test_midstream_a_fin_alone_is_no_span() -> None:
    stream = Stream()
    assert stream.push(segment(BASE, flags=FIN | ACK)) == []
    assert stream.finish() == []
    assert stream.offset == 0


def test_nothing_at_all() -> None:
    stream = Stream()
    assert stream.acked(acking(77)) == []
    assert stream.finish() == []


# Whose SYN is it


def test_a_syn_fits_the_stream_it_belongs_to() -> None:
    assert Stream().fits(5)
    assert opened().fits(ISN)
    assert not opened().fits(ISN + 1)


def test_a_syn_fits_a_stream_joined_midstream_where_it_begins() -> None:
    stream = Stream(Limits(held_bytes=100))
    stream.push(segment(BASE + 10, b"x"))
    assert stream.fits(ISN)
    assert stream.fits(ISN + 10)
    assert not stream.fits(ISN + 11)
    assert not stream.fits(ISN - 90)
    stream.acked(acking(11))
    assert stream.fits(ISN + 10)
    assert not stream.fits(ISN)


def test_a_syn_fits_a_stream_of_which_only_the_fin_was_seen() -> None:
    stream = Stream()
    stream.push(segment(BASE, flags=FIN | ACK))
    assert stream.fits(ISN)
    assert not stream.fits(ISN + 1)


def test_a_syn_that_does_not_fit_changes_nothing() -> None:
    stream = Stream(Limits(start_segments=1))
    stream.push(segment(BASE, b"ab"))
    assert stream.push(syn(ISN + 500)) == []
    assert data_of(stream.push(segment(BASE + 2, b"cd"))) == b"cd"
