"""Messages: every parser makes a whole frame, and says what is wrong with arguments that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import pytest

from natsync.protocol import Context, Frame, Message
from natsync.protocol.arguments import messages
from natsync.protocol.messages import BadArguments, number, number_up_to

from tests.protocol.table import CONTEXTS

Parse = Callable[..., Message]
PARSERS = [(context, op, parse) for context in CONTEXTS for op, parse in messages(context).items()]


def parsed(parse: Parse, count: int, numbers: int) -> Message | None:
    """The frame of a line with `count` arguments of which the last `numbers` are 3 and 5, or just 5."""
    args = [b"OP", *[b"RSID:1"] * (count - numbers), *[b"3", b"5"][2 - numbers :]]
    try:
        return parse(args, 7, 99, 5, BytesIO(b"hello").read)
    except BadArguments:
        return None


@pytest.mark.parametrize("context, op, parse", PARSERS)
def test_a_parser_sets_every_field(context: Context, op: bytes, parse: Parse) -> None:
    frames = [parsed(parse, count, numbers) for count in range(2, 7) for numbers in (1, 2)]
    made = [frame for frame in frames if frame]
    assert made
    for frame in made:
        assert (frame.offset, frame.total_bytes, frame.missing_bytes) == (7, 99, 0)
        assert frame.header_bytes + frame.payload_bytes == 5
        body: bytes = getattr(frame, "headers", b"") + getattr(frame, "payload")
        assert body == b"hello"
        copy = frame.placed(7, 99, body)
        for name in frame._fields:
            assert getattr(copy, name) == getattr(frame, name)


@pytest.mark.parametrize("context, op, parse", PARSERS)
def test_too_few_arguments(context: Context, op: bytes, parse: Parse) -> None:
    with pytest.raises(BadArguments):
        parse([op], 0, 0, 0, BytesIO().read)


@pytest.mark.parametrize("digits", [b"0", b"7", b"007", b"2047", b"2048", b"999999999"])
def test_a_number_has_1_to_9_digits(digits: bytes) -> None:
    assert number(digits) == number_up_to(999_999_999, digits) == int(digits)


@pytest.mark.parametrize("text", [b"", b"-1", b"1a", b"\xb2", b"1234567890"])
def test_what_is_no_number_is_refused(text: bytes) -> None:
    with pytest.raises(BadArguments, match="1 to 9 digits"):
        number(text)


def test_a_number_may_have_a_limit() -> None:
    assert number_up_to(5, b"5") == 5
    with pytest.raises(BadArguments, match="above 5"):
        number_up_to(5, b"6")


def test_frames_have_no_fields_that_parsers_do_not_know() -> None:
    """A new field of `Message` has to be set by each parser: the decoder does not call the class."""
    assert Frame._fields == ("offset", "total_bytes")
    assert Message._fields[2:] == ("payload_bytes", "missing_bytes")
