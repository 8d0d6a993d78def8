"""Seen lines: kept while they are met again, forgotten where they are not, and always bounded."""

from __future__ import annotations

from natsync.protocol import Msg
from natsync.protocol import seen as module
from natsync.protocol.seen import SeenLines

FIRST = module._FIRST_ROOM


def line(number: int) -> bytes:
    return b"MSG s%d 1 5\r\n" % number


def learn(seen: SeenLines, first: int = 0) -> int:
    """Keeps lines for as long as there is room; returns how many there were."""
    number = first
    while seen.learning:
        seen.keep(line(number), Msg(b"s%d" % number, b"1"), 5)
        seen.frames += 1
        number += 1
    return number - first


def count(seen: SeenLines, frames: int, unseen: int) -> None:
    seen.frames += frames
    seen.unseen += unseen
    if seen.unseen > seen.patience:
        seen.decide()


def known(seen: SeenLines, lines: int = 10_000) -> int:
    return sum(seen.get(line(number)) is not None for number in range(lines))


def test_a_line_that_is_kept_is_found_with_its_meaning() -> None:
    seen = SeenLines()
    seen.keep(b"MSG a 1 5\r\n", Msg(b"a", b"1", payload=b"hello"), 5)
    assert seen.get(b"MSG a 1 5\r\n") == (Msg(b"a", b"1"), 5, 0, 18)
    assert seen.get(b"MSG b 1 5\r\n") is None


def test_a_long_line_takes_room_and_is_not_kept() -> None:
    seen = SeenLines()
    wide = b"MSG %b 1 5\r\n" % (b"x" * 200)
    for _ in range(FIRST):
        seen.keep(wide, Msg(b"x" * 200, b"1"), 5)
    assert not seen.learning
    assert seen.get(wide) is None


def test_lines_that_are_met_again_get_more_room_up_to_a_limit() -> None:
    seen = SeenLines()
    rooms = []
    while len(rooms) < 10:
        learn(seen, first=known(seen))
        rooms.append(known(seen))
        count(seen, frames=rooms[-1] * module._TRIAL + 2, unseen=1)
    assert rooms[:3] == [FIRST, FIRST * 4, FIRST * 16]
    assert set(rooms[3:]) == {module._MOST_ROOM}


def test_lines_that_are_not_met_again_are_forgotten_and_nothing_is_kept_for_a_while() -> None:
    seen = SeenLines()
    assert learn(seen) == FIRST
    count(seen, frames=FIRST * module._TRIAL + 1, unseen=FIRST * module._TRIAL + 1)
    assert known(seen) == 0 and not seen.learning
    count(seen, frames=FIRST * module._REST, unseen=FIRST * module._REST)
    assert not seen.learning
    count(seen, frames=1, unseen=1)
    assert seen.learning
    assert learn(seen) == FIRST
    assert known(seen) == FIRST


def test_old_lines_make_room_for_newer_ones() -> None:
    seen = SeenLines()
    learn(seen)
    count(seen, frames=FIRST * 100, unseen=0)
    assert known(seen) == FIRST
    count(seen, frames=FIRST * 8 + 1, unseen=FIRST * 8 + 1)
    assert known(seen) == 0 and seen.learning
