"""Decoder: the tables hold; limits come before memory; gaps and learning work.

However the bytes are cut: test_decoder_pieces.py. What holds for any bytes at all: test_properties.py.
"""

from __future__ import annotations

import tracemalloc

import pytest

from natsync.protocol import (
    Connect,
    Context,
    Decoder,
    Info,
    Kind,
    Msg,
    Ping,
    Pong,
    ProtocolError,
    Role,
    RSub,
)

from tests.protocol.feeding import by_bytes, cut, decoder_of, read
from tests.protocol.refused import REFUSED, SERVER_LIMITS, Refused
from tests.protocol.table import CLIENT, ROUTE, Row, each_context

BEFORE = b"PING\r\nINFO {}\r\nPONG\r\n"
MB = 1 << 20

refusals = pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: refused.name)


@each_context
def test_a_row_whole(some: list[Row]) -> None:
    for row in some:
        reading = read([row.wire], row.context)
        assert reading.frames == [row.frame], row.name
        assert type(reading.frames[0]) is type(row.frame), row.name
        assert reading.places == [(0, len(row.wire))], row.name
        assert reading.refusal is None, row.name


@each_context
def test_a_row_byte_by_byte(some: list[Row]) -> None:
    for row in some:
        assert read(by_bytes(row.wire), row.context) == read([row.wire], row.context), row.name


def test_received_bytes_follow_those_that_were_not_read_yet() -> None:
    decoder = Decoder(Role.SERVER)
    assert decoder.receive(b"INFO {}\r\nPING\r\nMSG a") == [Info(b"{}")]
    assert decoder.has_more
    assert decoder.receive(b" 1 1\r\nx\r\n") == [Ping(), Msg(b"a", b"1", payload=b"x")]
    assert not decoder.has_more and decoder.idle


def test_an_info_in_pieces_is_a_stop_as_well() -> None:
    decoder = Decoder(Role.SERVER)
    assert decoder.receive(b"INFO {") == []
    assert decoder.receive(b"}\r\nPING\r\n") == [Info(b"{}")]
    assert decoder.has_more and decoder.read() == [Ping()]


def test_nothing_is_received_after_an_error() -> None:
    decoder = Decoder(Role.SERVER)
    for data in (b"nonsense\r\n", b"PING\r\n"):
        with pytest.raises(ProtocolError, match="at byte 0"):
            decoder.receive(data)


@each_context
def test_a_row_between_others(some: list[Row]) -> None:
    for row in some:
        end = len(BEFORE) + len(row.wire)
        reading = read([BEFORE + row.wire + b"PING\r\nPI"], row.context, offset=1000)
        assert reading.frames == [Ping(), Info(b"{}"), Pong(), row.frame, Ping()], row.name
        assert reading.places[3:] == [
            (1000 + len(BEFORE), len(row.wire)),
            (1000 + end, 6),
        ], row.name
        assert reading.tiles(1000) and reading.end == 1000 + end + 6, row.name


@each_context
def test_a_row_without_its_payload(some: list[Row]) -> None:
    for row in some:
        for pieces in ([row.wire], by_bytes(row.wire)):
            bare = read(pieces, row.context, payloads=False)
            full = read(pieces, row.context)
            assert (bare.places, bare.sizes) == (full.places, full.sizes), row.name
            assert getattr(bare.frames[0], "payload", b"") == b"", row.name
            assert getattr(bare.frames[0], "headers", b"") == getattr(
                row.frame, "headers", b""
            ), row.name


@refusals
def test_bytes_are_refused_where_they_are_wrong(refused: Refused) -> None:
    reading = read([refused.wire], refused.context, refused.limits)
    assert reading.frames == []
    assert reading.refusal is not None
    assert reading.refusal[:2] == (refused.reason, refused.at)


@refusals
def test_good_frames_before_the_refused_bytes_are_read(refused: Refused) -> None:
    stream = BEFORE + refused.wire
    reading = read([stream], refused.context, refused.limits, offset=7)
    assert reading.frames == [Ping(), Info(b"{}"), Pong()]
    assert reading.refusal is not None
    assert reading.refusal[:2] == (refused.reason, 7 + len(BEFORE) + refused.at)
    assert reading.end == 7 + len(BEFORE)


@refusals
def test_refused_bytes_are_refused_alike_in_any_pieces(refused: Refused) -> None:
    whole = read([refused.wire], refused.context, refused.limits)
    assert read(by_bytes(refused.wire), refused.context, refused.limits) == whole
    for place in range(1, min(len(refused.wire), 60)):
        assert read(cut(refused.wire, [place]), refused.context, refused.limits) == whole


@pytest.mark.parametrize(
    "wire",
    [
        b"SUB %b 1\r\n" % (b"s" * 4094),
        b"UNSUB %b\n" % (b"s" * 4096),
        b"PUB %b 0\r\n\r\n" % (b"s" * 4094),
        b'CONNECT {"a":"%b"}\r\n' % (b"s" * 4088),
        b'CONNECT{"a":"%b"}\r\n' % (b"s" * 4088),
        b"PING%b\r\n" % (b"s" * 4096),
    ],
    ids=lambda wire: wire[:12].decode(),
)
def test_a_control_line_up_to_the_limit_passes(wire: bytes) -> None:
    assert len(read([wire], CLIENT, SERVER_LIMITS).frames) == 1
    assert read(by_bytes(wire), CLIENT, SERVER_LIMITS) == read([wire], CLIENT, SERVER_LIMITS)


def test_an_error_stays_and_nothing_more_is_kept() -> None:
    decoder = Decoder(Role.SERVER)
    decoder.feed(b"PING\r\nMSG a 1 2\r\nabc\r\n")
    assert decoder.read() == [Ping()]
    for _ in range(3):
        with pytest.raises(ProtocolError, match="no CR LF after a body at byte 19: b'c'"):
            decoder.read()
        decoder.feed(bytes(MB))
    assert decoder.offset == 6
    with pytest.raises(ValueError):
        decoder.skip(0)
    tracemalloc.start()
    for _ in range(50):
        decoder.feed(bytes(MB))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < MB


def test_bytearrays_and_memoryviews_are_food_too() -> None:
    decoder = Decoder(Role.SERVER)
    data = bytearray(b"MSG a 1 2\r\nab\r\n")
    decoder.feed(data)  # type: ignore[arg-type]  # see below
    data[:] = bytes(len(data))
    decoder.feed(memoryview(b"PING\r\n"))  # type: ignore[arg-type]  # works, for readers into a buffer
    assert decoder.read() == [Msg(b"a", b"1", payload=b"ab"), Ping()]


def test_offset_and_idle_and_body_left_tell_what_is_in_progress() -> None:
    decoder = Decoder(Role.SERVER, offset=100)
    positions = []
    for byte in by_bytes(b"PING\r\nMSG a 1 1\r\nx\r\n"):
        decoder.feed(byte)
        assert not decoder.idle
        decoder.read()
        positions.append((decoder.offset, decoder.body_left, decoder.idle))
    line = [(106, 0, False)] * 10
    assert positions[:6] == [(100, 0, False)] * 5 + [(106, 0, True)]
    assert positions[6:] == [
        *line,
        (106, 3, False),
        (106, 2, False),
        (106, 1, False),
        (120, 0, True),
    ]


def test_reading_stops_after_info_and_connect() -> None:
    decoder = Decoder(Role.CLIENT, None)
    decoder.feed(b'PING\r\nCONNECT {"lang":"x"}\r\nINFO {}\r\nPUB a 1\r\nx\r\n')
    assert decoder.read() == [Ping(), Connect(b'{"lang":"x"}')]
    assert not decoder.idle
    decoder.learn(Kind.CLIENT)
    assert decoder.read() == [Info(b"{}")]
    assert [frame.op for frame in decoder.read()] == ["PUB"]
    assert decoder.read() == []
    assert decoder.idle


def test_an_unknown_kind_reads_no_message() -> None:
    decoder = Decoder(Role.SERVER, None)
    decoder.feed(b"INFO {}\r\nMSG a 1 1\r\nx\r\n")
    assert decoder.read() == [Info(b"{}")]
    with pytest.raises(ProtocolError, match="connection of unknown kind at byte 9"):
        decoder.read()


def test_learning_changes_only_the_named_options() -> None:
    decoder = Decoder(Role.SERVER, None)
    decoder.learn(Kind.ROUTE)
    decoder.learn(dedicated=True)
    decoder.learn(lnocu=True)
    assert decoder.context == Context(Role.SERVER, Kind.ROUTE, dedicated=True, lnocu=True)
    decoder.learn()
    assert decoder.context == Context(Role.SERVER, Kind.ROUTE, dedicated=True, lnocu=True)
    decoder.learn(dedicated=False)
    assert decoder.context == Context(Role.SERVER, Kind.ROUTE, lnocu=True)


def test_learning_in_the_middle_of_a_body_counts_from_the_next_line() -> None:
    decoder = decoder_of(ROUTE[1])
    decoder.feed(b"RMSG A foo 5\r\nhe")
    assert decoder.read() == []
    decoder.learn(dedicated=True)
    decoder.feed(b"llo\r\nRS+ foo\r\n")
    message, interest = decoder.read()
    assert (getattr(message, "account"), getattr(message, "payload")) == (b"A", b"hello")
    assert interest == RSub(b"foo")


def test_frames_that_somebody_else_has_read_are_passed_over() -> None:
    decoder = Decoder(Role.SERVER, offset=7)
    decoder.pass_over(100)
    decoder.feed(b"PING\r\n")
    (frame,) = decoder.read()
    assert (frame.offset, decoder.offset) == (107, 113)
    decoder.pass_over(0)
    assert decoder.offset == 113


@pytest.mark.parametrize("wire", [b"PI", b"MSG a 1 5\r\nhel", b"MSG a 1 5\r\nhello\r"])
def test_nothing_is_passed_over_inside_a_frame(wire: bytes) -> None:
    decoder = Decoder(Role.SERVER)
    decoder.feed(wire)
    assert decoder.read() == []
    with pytest.raises(ValueError, match="between frames"):
        decoder.pass_over(1)


def test_no_frame_is_passed_over_backwards() -> None:
    with pytest.raises(ValueError, match="between frames"):
        Decoder(Role.SERVER).pass_over(-1)


def test_what_is_kept_of_a_frame_in_progress_is_shown() -> None:
    decoder = Decoder(Role.SERVER, payloads=False)
    headers = b"NATS/1.0\r\n\r\n"
    line = b"HMSG a 1 12 17\r\n"
    shown = []
    for piece in (line[:3], line[3:], headers[:4], headers[4:] + b"hel", b"lo\r\n"):
        decoder.receive(piece)
        shown.append(decoder.unfinished)
    assert shown == [(b"HMS", b""), (line, b""), (line, headers[:4]), (line, headers), (b"", b"")]


def test_a_frame_that_was_read_elsewhere_is_made_without_moving() -> None:
    decoder = Decoder(Role.SERVER, offset=7)
    for _ in range(2):  # the second line is a known one
        frame = decoder.frame(b"MSG a 1 5\r\n", b"", 100)
        assert isinstance(frame, Msg)
        assert (frame.subject, frame.payload_bytes) == (b"a", 5)
        assert (frame.offset, frame.total_bytes, decoder.offset) == (100, 18, 7)
    with pytest.raises(ProtocolError):
        decoder.frame(b"PUB a 5\r\n", b"", 0)
