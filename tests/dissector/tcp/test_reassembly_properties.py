"""Reassembly: whatever happens to the segments of a stream, its bytes come out once, or are missing once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.tcp.limits import Limits
from dissect.nats.tcp.reassembly import Stream
from dissect.nats.types import Chunk, Item

from tests.support.segments import (
    BASE,
    ISN,
    MASK,
    acking,
    check_sums,
    data_of,
    gaps,
    oddities,
    opened,
    run,
    segment,
)
from tests.support.tcp_conversation import ACK, FIN, SYN

TEXT = bytes(range(1, 256)) * 4  # without the zeros of keep-alive probes


@st.composite
def pieces(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Ranges that cover TEXT[:size] whole, some of them several times, in any order."""
    size = draw(st.integers(1, 200))
    cuts = sorted(draw(st.sets(st.integers(1, size), max_size=12)) | {0, size})
    whole = list(zip(cuts, cuts[1:], strict=False))
    positions = st.integers(0, size - 1)
    extra = [
        (start, min(size, start + length))
        for start, length in draw(st.lists(st.tuples(positions, st.integers(1, 80)), max_size=8))
    ]
    return draw(st.permutations(whole + extra))


@settings(deadline=None)
@given(pieces(), st.sampled_from([ISN, MASK, MASK - 50, (1 << 31) - 20]))
def test_shuffled_doubled_split_and_overlapping_segments_say_the_same(
    ranges: list[tuple[int, int]], isn: int
) -> None:
    base = isn + 1
    segments = [segment(base + start, TEXT[start:end]) for start, end in ranges]
    stream, items = run(segments, opened(isn=isn))
    size = max(end for _, end in ranges)
    assert data_of(items) == TEXT[:size]
    assert stream.missing_bytes == 0
    assert oddities(items) == []
    assert stream.retransmitted_bytes <= sum(end - start for start, end in ranges) - size


@settings(deadline=None)
@given(pieces())
def test_without_a_syn_they_say_the_same_while_the_start_is_open(
    ranges: list[tuple[int, int]],
) -> None:
    stream = Stream(Limits(start_segments=1000))
    _, items = run([segment(BASE + start, TEXT[start:end]) for start, end in ranges], stream)
    assert data_of(items) == TEXT[: max(end for _, end in ranges)]
    assert stream.missing_bytes == 0


@settings(deadline=None)
@given(st.lists(st.integers(1, 40), min_size=3, max_size=12), st.data())
def test_a_lost_segment_is_one_gap_of_its_size(sizes: list[int], data: st.DataObject) -> None:
    starts = [sum(sizes[:count]) for count in range(len(sizes))]
    segments = [
        segment(BASE + start, TEXT[start : start + size])
        for start, size in zip(starts, sizes, strict=True)
    ]
    lost = data.draw(st.integers(0, len(sizes) - 2))
    del segments[lost]
    stream, items = run(data.draw(st.permutations(segments)))
    assert gaps(items) == [(starts[lost], sizes[lost], False)]
    assert data_of(items) == TEXT[: starts[lost]] + TEXT[starts[lost] + sizes[lost] : sum(sizes)]


@settings(deadline=None)
@given(pieces(), st.integers(0, 30))
def test_what_a_snap_length_cut_off_is_missing(ranges: list[tuple[int, int]], kept: int) -> None:
    segments = [
        segment(BASE + start, TEXT[start:end][:kept], length=end - start) for start, end in ranges
    ]
    stream, items = run(segments)
    assert all(truncated for _, _, truncated in gaps(items))
    assert stream.offset == max(end for _, end in ranges)
    for item in items:
        if isinstance(item, Chunk):
            assert item.data == TEXT[item.offset : item.offset + len(item.data)]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(-300, 300) | st.integers(0, MASK),  # place of a segment
            st.integers(0, 40),  # its payload
            st.integers(0, 20),  # and what was cut off of it
            st.sampled_from([ACK, ACK, ACK, SYN, FIN | ACK, SYN | FIN]),
            st.integers(-300, 300) | st.integers(0, MASK),  # an ack of the other side
            st.booleans(),
        ),
        max_size=40,
    )
)
def test_hostile_segments_keep_the_sums(
    script: list[tuple[int, int, int, int, int, bool]],
) -> None:
    limits = Limits(held_bytes=100, held_segments=5, patience_packets=2, start_segments=3)
    stream = Stream(limits)
    items: list[Item] = []
    for ms, (place, size, cut, flags, ack, answered) in enumerate(script):
        items += stream.push(segment(BASE + place, TEXT[:size], flags, size + cut, ms))
        if answered:
            items += stream.acked(acking(ack, ms))
        waiting = [piece for run in stream.held for piece in run.pieces]
        assert len(waiting) <= limits.held_segments
        assert sum(len(piece.payload) for piece in waiting) <= limits.held_bytes
    items += stream.finish()
    check_sums(stream, items)


def test_segments_that_somebody_else_has_read_are_passed_over() -> None:
    one, other = opened(), opened()
    for number in range(3):
        (last,) = one.push(segment(BASE + 4 * number, b"PING", ms=number))
    assert isinstance(last, Chunk)
    other.advance(last, segment(BASE + 8, b"PING", ms=2))
    again = segment(BASE + 10, b"xy?", ms=9)
    assert one.push(again) == other.push(again)
    assert (one.offset, one.next_seq) == (other.offset, other.next_seq) == (13, BASE + 13)
