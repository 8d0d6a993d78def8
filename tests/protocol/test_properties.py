"""Laws of the codec that hold for all frames, all bytes and all chunkings."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from natsync.protocol import Context, Decoder, Frame, Kind, Limits, Message, ProtocolError, encode

from tests.protocol.feeding import by_bytes, cut, decoder_of, drain, label, read, sizes
from tests.protocol.strategies import BY_CONTEXT, bodies, contexts, conversations, wires
from tests.protocol.table import CONTEXTS, ROUTE

places = st.lists(st.integers(0, 300), max_size=8)
small_limits = st.builds(Limits, st.integers(0, 40), st.integers(0, 40))
many_examples = settings(deadline=None, max_examples=300)

CARRIED = [
    pytest.param(context, cls, id=f"{cls.__name__} {label(context)}")
    for context in CONTEXTS
    for cls in BY_CONTEXT[context]
]


@pytest.mark.parametrize("context, cls", CARRIED)
def test_what_is_encoded_reads_back_equal(context: Context, cls: type[Frame]) -> None:
    @given(BY_CONTEXT[context][cls])
    @settings(deadline=None, max_examples=25)
    def check(frame: Frame) -> None:
        wire = encode(frame, context)
        reading = read([wire], context)
        assert reading.frames == [frame]
        assert type(reading.frames[0]) is cls
        assert reading.sizes == [sizes(frame)]
        assert reading.places == [(0, len(wire))]

    check()


@many_examples
@given(conversations(), places)
def test_a_conversation_reads_back_in_any_pieces(
    conversation: tuple[Context, list[Frame]], edges: list[int]
) -> None:
    context, frames = conversation
    wire = b"".join(encode(frame, context) for frame in frames)
    whole = read([wire], context)
    assert whole.frames == frames
    assert whole.tiles() and whole.end == len(wire)
    assert read(cut(wire, edges), context) == whole
    assert read(by_bytes(wire), context) == whole


@many_examples
@given(wires, contexts, places, st.just(Limits()) | small_limits, st.booleans())
def test_any_bytes_are_frames_or_one_error_in_any_pieces(
    wire: bytes, context: Context, edges: list[int], limits: Limits, payloads: bool
) -> None:
    whole = read([wire], context, limits, payloads=payloads, offset=10)
    assert whole.tiles(10)
    if whole.refusal:
        assert whole.refusal[1] is not None and whole.end <= whole.refusal[1] < 10 + len(wire)
    for pieces in (cut(wire, edges), by_bytes(wire)):
        assert read(pieces, context, limits, payloads=payloads, offset=10) == whole


@many_examples
@given(wires, contexts, st.just(Limits()) | small_limits)
def test_payloads_that_are_not_kept_change_nothing_else(
    wire: bytes, context: Context, limits: Limits
) -> None:
    full = read([wire], context, limits)
    bare = read([wire], context, limits, payloads=False)
    for frame in full.frames:
        if isinstance(frame, Message):
            setattr(frame, "payload", b"")
    assert bare == full


@many_examples
@given(wires, contexts)
def test_an_error_shows_little_and_never_a_secret(wire: bytes, context: Context) -> None:
    secret = b"s3cr3t-s3cr3t"
    refusal = read([wire, b'CONNECT {"pass":"%b"}' % secret, b"\r\r\n"], context).refusal
    assert refusal is None or (len(refusal[2]) <= 32 and secret[:2] not in refusal[2])


def through_a_gap(decoder: Decoder, before: bytes, gap: int, after: bytes) -> list[Frame]:
    """The frames of `before`, `gap` bytes that never arrive, and `after`."""
    decoder.feed(before)
    got = [frame for frames in drain(decoder) for frame in frames]
    decoder.skip(gap)
    got += decoder.read()
    decoder.feed(after)
    return got + [frame for frames in drain(decoder) for frame in frames]


@many_examples
@given(conversations(), st.data(), st.booleans())
def test_a_gap_in_a_body_costs_its_bytes_and_no_more(
    conversation: tuple[Context, list[Frame]], data: st.DataObject, keep: bool
) -> None:
    context, frames = conversation
    messages = [number for number, frame in enumerate(frames) if isinstance(frame, Message)]
    assume(messages)
    at = data.draw(st.sampled_from(messages))
    written = [encode(frame, context) for frame in frames]
    header_size, payload_size, _ = sizes(frames[at])
    body = header_size + payload_size + 2
    first = data.draw(st.integers(0, body - 1))
    end = data.draw(st.integers(first, body))
    begin = sum(map(len, written[: at + 1])) - body
    stream = b"".join(written)

    decoder = decoder_of(context, payloads=keep)
    got = through_a_gap(decoder, stream[: begin + first], end - first, stream[begin + end :])

    lost = max(0, min(end, body - 2) - max(first, header_size))
    headers_are_whole = min(end, header_size) <= first
    assert [(type(frame), frame.total_bytes) for frame in got] == [
        (type(frame), len(wire)) for frame, wire in zip(frames, written)
    ]
    assert sizes(got[at]) == (header_size, payload_size, lost)
    assert len(getattr(got[at], "payload")) == (payload_size - lost if keep else 0)
    assert getattr(got[at], "headers", b"") == (
        getattr(frames[at], "headers", b"") if headers_are_whole else b""
    )
    if keep:
        assert got[:at] + got[at + 1 :] == frames[:at] + frames[at + 1 :]


@many_examples
@given(st.lists(st.tuples(st.booleans(), bodies), max_size=6), places)
def test_learning_at_the_stops_reads_the_same_in_any_pieces(
    turns: list[tuple[bool, bytes]], edges: list[int]
) -> None:
    """The reader learns after each INFO; a RMSG `a b c 5` has an account only where it is not dedicated."""
    wire = b"".join(
        b'INFO {"d":%d}\r\nRMSG a b %d\r\n%b\r\n' % (dedicated, len(body), body)
        for dedicated, body in turns
    )

    def learning(pieces: list[bytes]) -> list[tuple[Frame, int]]:
        decoder = Decoder(ROUTE[0].sender, None)
        got: list[tuple[Frame, int]] = []
        for piece in pieces:
            decoder.feed(piece)
            for frames in drain(decoder):
                got += [(frame, frame.offset) for frame in frames]
                if frames[-1].op == "INFO":
                    decoder.learn(Kind.ROUTE, dedicated=b"1" in getattr(frames[-1], "json"))
        return got

    whole = learning([wire])
    assert learning(cut(wire, edges)) == learning(by_bytes(wire)) == whole
    assert [getattr(frame, "reply") for frame, _ in whole[1::2]] == [
        b"b" if dedicated else b"" for dedicated, _ in turns
    ]


@pytest.mark.parametrize("context", CONTEXTS, ids=label)
def test_frames_that_a_context_has_not_are_not_written(context: Context) -> None:
    every = {cls: frames for of in BY_CONTEXT.values() for cls, frames in of.items()}
    for cls in every.keys() - BY_CONTEXT[context].keys():

        @given(every[cls])
        @settings(deadline=None, max_examples=3)
        def check(frame: Frame) -> None:
            with pytest.raises(ProtocolError, match="is not sent by"):
                encode(frame, context)

        check()
