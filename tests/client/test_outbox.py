"""The outbox: order, back-pressure, times without a connection, closing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic

import pytest

from natsync.errors import (
    ConnectionClosedError,
    ConnectionReconnectingError,
    OutboundBufferLimitError,
)
from natsync.outbox import MUCH, Ask, Drive, Flush, Interest, Item, Outbox, Pieces, length

from tests.support.fake_server import Background

TIMEOUT = 10.0


class StillBell:
    """Counts who rings."""

    def __init__(self) -> None:
        self.awake = False
        self.aloof = False
        self.woken = 0
        self.nudged = 0

    def wake(self) -> None:
        self.woken += 1

    def nudge(self) -> None:
        self.nudged += 1


def nobody(done: object, until: float) -> None:
    """Nobody drives here."""


def new_outbox(
    limit: int = 10, timeout: float = TIMEOUT, away_limit: int = 100, drive: Drive = nobody
) -> tuple[Outbox, StillBell]:
    bell = StillBell()
    outbox = Outbox(bell, drive, limit, timeout, away_limit)
    outbox.arrive()
    return outbox, bell


def put(outbox: Outbox, data: bytes) -> None:
    outbox.put(data, len(data))


def test_the_outbox_keeps_order_and_nudges_for_each() -> None:
    outbox, bell = new_outbox()
    put(outbox, b"a")
    put(outbox, b"b")
    assert bell.nudged == 2  # an interrupt may have kept the first from it
    outbox.tell(Interest(b"SUB"))
    assert bell.woken == 1
    outbox.put(Pieces((b"PUB", b"x")), 4)
    assert outbox.take() == [b"a", b"b", b"SUB", (b"PUB", b"x")]
    assert outbox.take() == []
    put(outbox, b"c")
    assert outbox.take() == [b"c"]


def test_it_is_quiet_where_somebody_looks_anyway_or_the_caller_does() -> None:
    outbox, bell = new_outbox()
    outbox.put(b"a", 1, False)
    bell.awake = True
    put(outbox, b"b")
    bell.awake, bell.aloof = False, True
    put(outbox, b"c")
    assert bell.nudged == 0


def test_one_may_be_over_the_limit_the_next_waits_for_room() -> None:
    outbox, _ = new_outbox()
    put(outbox, bytes(50))
    call = Background(lambda: put(outbox, b"next"))
    assert outbox.take() == [bytes(50)]
    call.result()
    assert outbox.take() == [b"next"]


def test_who_waits_for_room_makes_it_where_nobody_else_does() -> None:
    def drive(done: Callable[[], object] | None, until: float) -> None:
        assert done and not done()
        sent.extend(outbox.take())
        assert done()

    sent: list[Item] = []
    outbox, _ = new_outbox(drive=drive)
    put(outbox, bytes(50))
    put(outbox, b"next")
    assert (sent, outbox.take()) == ([bytes(50)], [b"next"])


def test_who_puts_much_sends_it_but_not_at_every_put() -> None:
    pushed: list[object] = []
    outbox, bell = new_outbox(
        limit=10 * MUCH, drive=lambda done, until: pushed.append((done, until))
    )
    half = bytes(MUCH // 2)
    for count in (0, 1, 1, 2, 2):
        put(outbox, half)
        assert len(pushed) == count
    outbox.put(half, len(half), False)  # this one drives anyway
    assert len(pushed) == 2 and pushed[0] == (None, 0.0)
    assert bell.nudged == 3
    outbox.take()
    put(outbox, half)
    put(outbox, half)
    assert len(pushed) == 3


def test_interest_and_flushes_never_wait() -> None:
    outbox, _ = new_outbox()
    put(outbox, bytes(50))
    outbox.tell(Interest(b"SUB"))
    outbox.flush("token")
    *data, flush = outbox.take()
    assert data == [bytes(50), b"SUB"]
    assert isinstance(flush, Flush) and flush.token == "token"


def test_no_room_in_time() -> None:
    outbox, _ = new_outbox(timeout=0.02)
    put(outbox, bytes(50))
    with pytest.raises(OutboundBufferLimitError) as caught:
        put(outbox, b"x")
    assert (caught.value.limit, caught.value.timeout) == (10, 0.02)
    assert outbox.take() == [bytes(50)]


def test_closing_refuses_and_frees_those_who_wait() -> None:
    outbox, bell = new_outbox()
    last = Flush("last")
    put(outbox, bytes(50))
    calls = [Background(lambda: put(outbox, b"x")) for _ in range(3)]
    outbox.close(lambda: ConnectionClosedError("first"), last=last)
    outbox.close(lambda: ConnectionClosedError("second"))
    for call in calls:
        with pytest.raises(ConnectionClosedError, match="first"):
            call.result()
    with pytest.raises(ConnectionClosedError, match="first"):
        put(outbox, b"x")
    with pytest.raises(ConnectionClosedError, match="first"):
        outbox.tell(Interest(b"SUB"))
    assert outbox.take() == [bytes(50), last]
    assert bell.woken == 2


def test_nothing_is_lost_between_many_writers_and_one_reader() -> None:
    outbox, _ = new_outbox(limit=500)

    def write(writer: int) -> None:
        for number in range(2000):
            put(outbox, b"%d %d;" % (writer, number))

    calls = [Background(partial(write, writer)) for writer in range(4)]
    taken: list[bytes] = []
    until = monotonic() + TIMEOUT
    while len(taken) < 8000 and monotonic() < until:
        taken += [item for item in outbox.take() if isinstance(item, bytes)]
    for call in calls:
        call.result()
    for writer in range(4):
        numbers = [int(item[2:-1]) for item in taken if item.startswith(b"%d " % writer)]
        assert numbers == list(range(2000))


def test_away_things_are_kept_but_not_those_of_the_old_connection() -> None:
    outbox, _ = new_outbox()
    put(outbox, b"later")
    put(outbox, Ask(b"request"))
    outbox.flush("token")
    unsent = [b"first", Interest(b"SUB"), Ask(b"asked")]
    assert [flush.token for flush in outbox.leave(unsent)] == ["token"]
    outbox.tell(Interest(b"SUB"))
    put(outbox, b"away")
    with pytest.raises(ConnectionReconnectingError):
        outbox.flush("token")
    assert outbox.take() == [b"first", b"later", b"away"]


def test_away_it_is_full_at_once_beyond_its_limit() -> None:
    outbox, _ = new_outbox(timeout=TIMEOUT)
    outbox.leave([])
    put(outbox, bytes(100))
    with pytest.raises(OutboundBufferLimitError, match="while reconnecting"):
        put(outbox, b"x")
    outbox.take()
    put(outbox, b"x")
    outbox.arrive()
    assert outbox.take() == [b"x"]


def test_nothing_is_kept_where_nothing_is_to_be() -> None:
    outbox, _ = new_outbox(away_limit=0)
    outbox.leave([])
    with pytest.raises(ConnectionReconnectingError):
        put(outbox, b"x")


def test_losing_the_connection_frees_who_waits_for_room() -> None:
    outbox, _ = new_outbox()
    put(outbox, bytes(50))
    call = Background(lambda: put(outbox, b"x"))
    outbox.leave([])
    call.result()
    assert outbox.take() == [bytes(50), b"x"]


def test_a_message_and_its_flush_are_sent_on_one_connection_or_not_at_all() -> None:
    outbox, _ = new_outbox()
    outbox.flush("before", Ask(b"sent"))
    ask, flush = outbox.take()
    assert ask == b"sent" and isinstance(flush, Flush) and flush.token == "before"
    outbox.flush("token", Ask(b"lost"))
    assert [flush.token for flush in outbox.leave([])] == ["token"]
    with pytest.raises(ConnectionReconnectingError):
        outbox.flush("token", Ask(b"away"))
    outbox.arrive()
    assert outbox.take() == []


def test_a_message_with_its_flush_waits_for_room() -> None:
    outbox, _ = new_outbox()
    put(outbox, bytes(50))
    call = Background(lambda: outbox.flush("token", Ask(b"next")))
    assert outbox.take() == [bytes(50)]
    call.result()
    outbox.flush("more")  # which does not
    assert [*map(length, outbox.take())] == [4, 0, 0]
    put(outbox, bytes(50))
    outbox._timeout = 0.0
    with pytest.raises(OutboundBufferLimitError):
        outbox.flush("token", Ask(b"late"))


class Meddler(list[Item]):
    """Does `act` behind an `append`, as another thread may."""

    act: Callable[[], object] = staticmethod(lambda: None)

    def append(self, item: Item) -> None:
        super().append(item)
        self.act()


def meddled(act: Callable[[Outbox], object]) -> Outbox:
    outbox, _ = new_outbox()
    items = Meddler()
    items.act = lambda: act(outbox)
    outbox._items, outbox._append = items, items.append
    return outbox


def refuse(outbox: Outbox) -> None:
    outbox.close(lambda: ConnectionClosedError("closed"))


def test_what_is_put_while_it_is_closed_is_taken_by_somebody_or_refused() -> None:
    outbox = meddled(refuse)
    with pytest.raises(ConnectionClosedError):
        put(outbox, b"x")
    assert outbox.take() == []
    taken: list[Item] = []
    outbox = meddled(lambda outbox: (refuse(outbox), taken.extend(outbox.take())))
    put(outbox, b"x")
    assert taken == [b"x"]


def test_what_is_put_while_the_connection_is_lost_is_kept() -> None:
    outbox = meddled(lambda outbox: outbox.leave([b"before"]))
    put(outbox, b"x")
    assert outbox.take() == [b"before", b"x"]


def test_what_is_taken_before_its_size_is_known_fills_nothing() -> None:
    outbox = meddled(lambda outbox: outbox.take())
    outbox._timeout = 0.0
    put(outbox, bytes(50))
    assert not outbox.is_full
    put(outbox, bytes(50))


def test_what_comes_while_all_is_taken_stays() -> None:
    class Late(list[Item]):
        def __getitem__(self, at: object) -> list[Item]:  # type: ignore[override]  # only slices here
            taken = self.copy()
            self.append(b"late")
            return taken

    outbox, _ = new_outbox(limit=1000)
    outbox._items = Late([b"early"])
    assert outbox.take() == [b"early"]
    assert list(outbox._items) == [b"late"]


def test_sizes_of_all_kinds() -> None:
    items = [b"four", Ask(b"ask"), Interest(b"SUB 1"), Pieces((b"PUB", b"", b"x")), Flush("token")]
    assert [*map(length, items)] == [4, 3, 5, 4, 0]
