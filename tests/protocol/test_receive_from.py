"""`Decoder.receive_from`: frames are those of the bytes that were read, whatever else the buffer holds."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsync.protocol import Limits, Msg, ProtocolError, Role
from natsync.protocol.decoder import Decoder

from tests.protocol.feeding import Reading, cut, decoder_of, drain, read
from tests.protocol.table import SERVER

STREAM = (
    b"INFO {}\r\nPING\r\nMSG a 1 2\r\nab\r\nHMSG a 1 12 13\r\nNATS/1.0\r\n\r\nx\r\n+OK\r\n"
    b"MSG b 2 re.ply 40\r\n%b\r\nMSG a 1 0\r\n\r\nPONG\r\n" % (b"PING\r\n" * 6 + b"1234")
)
SIZE = 64


def received(pieces: list[bytes], limits: Limits = Limits(), payloads: bool = True) -> Reading:
    """What becomes of `pieces`, each put into the same buffer, as `feeding.read` says it."""
    buffer = BytesIO(bytes(SIZE + 1))
    decoder = decoder_of(SERVER, limits, payloads=payloads)
    reading = Reading()
    try:
        for piece in pieces:
            while piece:
                count = min(SIZE, len(piece))
                with buffer.getbuffer() as room:
                    room[:count], piece = piece[:count], piece[count:]
                reading.add(decoder.receive_from(buffer, count))
                for frames in drain(decoder):
                    reading.add(frames)
    except ProtocolError as error:
        reading.refusal = (error.reason, error.offset, error.snippet)
    buffer.seek(0)
    buffer.truncate(SIZE + 1)  # refused while there are views
    reading.end = decoder.offset
    return reading


def test_a_stream_in_two_pieces() -> None:
    for at in range(len(STREAM) + 1):
        pieces = cut(STREAM, [at])
        assert received(pieces) == read(pieces, SERVER)


@given(
    wire=st.one_of(
        st.just(STREAM),
        st.lists(
            st.sampled_from(
                [STREAM, b"\r\n", b"\n", b"MSG a 1 2\r\n", b"PIN", b"x", b"-ERR 'x'\r\n"]
            )
        ).map(b"".join),
    ),
    places=st.lists(st.integers(0, 400), max_size=12),
    largest=st.sampled_from([39, 1000]),
    payloads=st.booleans(),
)
def test_any_stream_in_any_pieces(
    wire: bytes, places: list[int], largest: int, payloads: bool
) -> None:
    pieces, limits = cut(wire, places), Limits(50, largest)
    assert received(pieces, limits, payloads) == read(pieces, SERVER, limits, payloads=payloads)


def test_after_what_may_change_the_rules_the_rest_is_kept() -> None:
    buffer, decoder = BytesIO(bytes(SIZE + 1)), Decoder(Role.SERVER)
    wire = b"INFO {}\r\nMSG a 1 2\r\nab\r\nMSG a"
    with buffer.getbuffer() as room:
        room[: len(wire)] = wire
    assert len(decoder.receive_from(buffer, len(wire))) == 1 and decoder.has_more
    rest = b" 1 2\r\ncd\r\n"
    with buffer.getbuffer() as room:
        room[: len(rest)] = rest
    assert decoder.receive_from(buffer, len(rest)) == [
        Msg(b"a", b"1", payload=b"ab"),
        Msg(b"a", b"1", payload=b"cd"),
    ]


@pytest.mark.parametrize(
    "pieces",
    [
        (b"MSG a 1 9\r\nab", b"cd", b"efghi\r\nPING\r\nMSG", b" a 1 x\r\n"),
        (b"MSG a 1 2\r\nab", b"cd\r\n"),
        (b"MSG a 1 2\r\nab\r", b"cd\r\n"),
        (b"PING\r\nMSG a 1 2\r\n", b"abcd\r\n"),
    ],
)
def test_a_decoder_leaves_no_view_to_the_garbage_collector(pieces: tuple[bytes, ...]) -> None:
    """Neither where an error keeps the frames of its calls."""
    buffer, decoder = BytesIO(bytes(SIZE + 1)), Decoder(Role.SERVER)
    for wire in pieces:
        with buffer.getbuffer() as room:
            room[: len(wire)] = wire
        with suppress(ProtocolError):
            decoder.receive_from(buffer, len(wire))
        buffer.seek(0)
        buffer.truncate(SIZE + 1)  # refused while there are views
