"""Decoder: every row of the tables reads the same wherever its bytes are cut, and whoever asks for them."""

from __future__ import annotations

from natsync.protocol import Context, ProtocolError

from tests.protocol.feeding import Reading, cut, decoder_of, read
from tests.protocol.table import Row, each_context

AROUND = b"PING\r\nINFO {}\r\nPONG\r\n"


@each_context
def test_a_row_in_two_pieces(some: list[Row]) -> None:
    for row in some:
        whole = read([row.wire], row.context)
        for place in range(1, min(len(row.wire), 100)):
            assert read(cut(row.wire, [place]), row.context) == whole, (row.name, place)


@each_context
def test_receiving_is_feeding_and_reading(some: list[Row]) -> None:
    for row in some:
        wire = AROUND + row.wire + AROUND[:6] + b"?\r\n"
        for place in range(0, min(len(wire), 60)):
            pieces = cut(wire, [place] if place else [])
            assert received(pieces, row.context) == read(pieces, row.context), (row.name, place)


def received(pieces: list[bytes], context: Context) -> Reading:
    """The reading of `receive`, which feeds and reads at once."""
    reading, decoder = Reading(), decoder_of(context)
    try:
        for piece in pieces:
            reading.add(decoder.receive(piece))
            while decoder.has_more:
                reading.add(decoder.read())
    except ProtocolError as error:
        reading.refusal = (error.reason, error.offset, error.snippet)
    reading.end = decoder.offset
    return reading
