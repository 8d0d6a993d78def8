"""`BlockingIterator`: it gives what `next` returns, ends where that is closed, and nothing else ends it."""

from __future__ import annotations

import pytest

from natsync import NextMsgTimeoutError
from natsync.jetstream import MessagesClosedError
from natsync.jetstream.blocking_iterator import BlockingIterator


class Countdown(BlockingIterator[int]):
    """Gives 3, 2, 1; raises `end` then, and MessagesClosedError once it was stopped."""

    def __init__(self, end: Exception) -> None:
        self.end, self.left, self.stops = end, 3, 0

    def next(self, timeout: float | None = None) -> int:
        assert timeout is None, "iteration waits for ever"
        if self.stops:
            raise MessagesClosedError("S", "c")
        if not self.left:
            raise self.end
        self.left -= 1
        return self.left + 1

    def stop(self) -> None:
        self.stops += 1


def test_iteration_ends_where_the_reader_is_closed() -> None:
    assert [*Countdown(MessagesClosedError("S", "c"))] == [3, 2, 1]


def test_any_other_error_is_raised() -> None:
    reader = Countdown(NextMsgTimeoutError("a", 1.0))
    taken = []
    with pytest.raises(NextMsgTimeoutError):
        for item in reader:
            taken.append(item)
    assert taken == [3, 2, 1]


def test_a_with_block_stops_it() -> None:
    with Countdown(ValueError()) as reader:
        assert next(reader) == 3
        assert reader.stops == 0
    assert reader.stops == 1 and [*reader] == []


def test_an_error_in_the_block_stops_it_and_is_raised() -> None:
    reader = Countdown(ValueError())
    with pytest.raises(KeyError), reader:
        raise KeyError
    assert reader.stops == 1
