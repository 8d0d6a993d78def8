"""Grammar: one line in, one frame out; what is remembered of lines, and that it stays bounded.

Lenient and refused forms are in the tables, which test_decoder.py runs.
"""

from __future__ import annotations

import pickle

import pytest

from natsync.protocol import Context, Limits, Msg, Ping, ProtocolError, Role
from natsync.protocol.grammar import Grammar, grammar

from tests.protocol.table import CLIENT, ROWS, SERVER, Row

messages = [row for row in ROWS if hasattr(row.frame, "payload")]


@pytest.mark.parametrize("row", messages, ids=lambda row: row.name)
def test_a_line_says_the_sizes_of_what_follows(row: Row) -> None:
    line = row.wire[: row.wire.index(b"\n") + 1]
    frame, size, header_size, total = grammar(row.context, Limits()).read(line)
    assert type(frame) is type(row.frame)
    assert total == len(row.wire)
    assert size == len(row.wire) - len(line) - 2
    assert header_size == len(getattr(row.frame, "headers", b""))
    assert getattr(frame, "payload") == getattr(frame, "headers", b"") == b""


def test_a_line_without_a_body_has_no_size() -> None:
    assert Grammar(CLIENT, Limits()).read(b"PING\r\n") == (Ping(), -1, 0, 6)


def test_one_grammar_for_all_who_ask() -> None:
    assert grammar(SERVER, Limits()) is grammar(Context(Role.SERVER), Limits())
    assert grammar(SERVER, Limits()) is not grammar(SERVER, Limits(payload=1))


def test_errors_are_placed_where_the_line_starts() -> None:
    with pytest.raises(ProtocolError) as caught:
        Grammar(CLIENT, Limits()).read_at(b"PUB\r\n", 40)
    assert (caught.value.reason, caught.value.offset) == ("PUB with 0 arguments", 40)


def test_lines_of_messages_are_remembered_and_others_are_not() -> None:
    words = Grammar(SERVER, Limits())
    for line in (b"MSG a 1 5\r\n", b"PING\r\n", b"INFO {}\r\n"):
        words.read(line)
    assert words.seen.get(b"MSG a 1 5\r\n") == (Msg(b"a", b"1"), 5, 0, 18)
    assert words.seen.get(b"PING\r\n") is words.seen.get(b"INFO {}\r\n") is None


def test_a_refused_line_is_not_remembered() -> None:
    words = Grammar(SERVER, Limits(payload=4))
    for _ in range(2):
        with pytest.raises(ProtocolError, match="over the limit of 4"):
            words.read(b"MSG a 1 5\r\n")
    assert words.seen.get(b"MSG a 1 5\r\n") is None


@pytest.mark.parametrize(
    "start", [b"M", b"ms", b"A", b"Au", b"au", b"Au ", b"-er", b"CONNEC", b"PINGx"]
)
def test_what_may_become_a_line_is_waited_for(start: bytes) -> None:
    Grammar(SERVER, Limits()).check_start(bytearray(start), 0)


@pytest.mark.parametrize(
    "start, snippet",
    [
        (b"x", b"x"),
        (b"MSX", b"MSX"),
        (b"aux", b"aux"),
        (b"AU", b"AU"),
        (b"s3cret", b"s3"),
        (b"\r", b"\r"),
    ],
)
def test_what_cannot_become_a_line_is_refused_at_once(start: bytes, snippet: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        Grammar(SERVER, Limits()).check_start(bytearray(start), 9)
    error = caught.value
    assert (error.reason, error.offset, error.snippet) == ("unknown operation", 9, snippet)


def test_a_grammar_that_is_copied_is_the_same_one() -> None:
    words = grammar(SERVER, Limits())
    assert pickle.loads(pickle.dumps(words)) is words
