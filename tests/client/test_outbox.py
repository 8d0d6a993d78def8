"""The outbox: order, back-pressure, times without a connection, closing."""

from __future__ import annotations

from functools import partial
from time import monotonic

import pytest

from natsync.errors import (
    ConnectionClosedError,
    ConnectionReconnectingError,
    OutboundBufferLimitError,
)
from natsync.outbox import Ask, Flush, Interest, Outbox

from tests.support.fake_server import Background

TIMEOUT = 10.0


def new_outbox(limit: int = 10, timeout: float = TIMEOUT) -> tuple[Outbox, list[int]]:
    woken: list[int] = []
    outbox = Outbox(lambda: woken.append(1), limit, timeout, away_limit=100)
    outbox.arrive()
    return outbox, woken


def test_the_outbox_keeps_order_and_wakes_for_each() -> None:
    outbox, woken = new_outbox()
    outbox.put(b"a")
    outbox.put(b"b")
    assert len(woken) == 2  # an interrupt may have kept the first from it
    outbox.tell(Interest(b"SUB"))
    assert outbox.take() == [b"a", b"b", b"SUB"]
    assert outbox.take() == []
    outbox.put(b"c")
    assert outbox.take() == [b"c"]


def test_one_may_be_over_the_limit_the_next_waits_for_room() -> None:
    outbox, _ = new_outbox()
    outbox.put(bytes(50))
    call = Background(lambda: outbox.put(b"next"))
    assert outbox.take() == [bytes(50)]
    call.result()
    assert outbox.take() == [b"next"]


def test_interest_and_flushes_never_wait() -> None:
    outbox, _ = new_outbox()
    outbox.put(bytes(50))
    outbox.tell(Interest(b"SUB"))
    outbox.flush("token")
    *data, flush = outbox.take()
    assert data == [bytes(50), b"SUB"]
    assert isinstance(flush, Flush) and flush.token == "token"


def test_no_room_in_time() -> None:
    outbox, _ = new_outbox(timeout=0.02)
    outbox.put(bytes(50))
    with pytest.raises(OutboundBufferLimitError) as caught:
        outbox.put(b"x")
    assert (caught.value.limit, caught.value.timeout) == (10, 0.02)
    assert outbox.take() == [bytes(50)]


def test_closing_refuses_and_frees_those_who_wait() -> None:
    outbox, woken = new_outbox()
    last = Flush("last")
    outbox.put(bytes(50))
    calls = [Background(lambda: outbox.put(b"x")) for _ in range(3)]
    outbox.close(lambda: ConnectionClosedError("first"), last=last)
    outbox.close(lambda: ConnectionClosedError("second"))
    for call in calls:
        with pytest.raises(ConnectionClosedError, match="first"):
            call.result()
    with pytest.raises(ConnectionClosedError, match="first"):
        outbox.put(b"x")
    with pytest.raises(ConnectionClosedError, match="first"):
        outbox.tell(Interest(b"SUB"))
    assert outbox.take() == [bytes(50), last]
    assert len(woken) == 2


def test_nothing_is_lost_between_many_writers_and_one_reader() -> None:
    outbox, _ = new_outbox(limit=500)

    def write(writer: int) -> None:
        for number in range(2000):
            outbox.put(b"%d %d;" % (writer, number))

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
    outbox.put(b"later")
    outbox.put(Ask(b"request"))
    outbox.flush("token")
    unsent = [b"first", Interest(b"SUB"), Ask(b"asked")]
    assert [flush.token for flush in outbox.leave(unsent)] == ["token"]
    outbox.tell(Interest(b"SUB"))
    outbox.put(b"away")
    with pytest.raises(ConnectionReconnectingError):
        outbox.flush("token")
    assert outbox.take() == [b"first", b"later", b"away"]


def test_away_it_is_full_at_once_beyond_its_limit() -> None:
    outbox, _ = new_outbox(timeout=TIMEOUT)
    outbox.leave([])
    outbox.put(bytes(100))
    with pytest.raises(OutboundBufferLimitError, match="while reconnecting"):
        outbox.put(b"x")
    outbox.take()
    outbox.put(b"x")
    outbox.arrive()
    assert outbox.take() == [b"x"]


def test_nothing_is_kept_where_nothing_is_to_be() -> None:
    outbox = Outbox(lambda: None, 10, TIMEOUT, away_limit=0)
    with pytest.raises(ConnectionReconnectingError):
        outbox.put(b"x")


def test_losing_the_connection_frees_who_waits_for_room() -> None:
    outbox, _ = new_outbox()
    outbox.put(bytes(50))
    call = Background(lambda: outbox.put(b"x"))
    outbox.leave([])
    call.result()
    assert outbox.take() == [bytes(50), b"x"]


def test_what_is_only_for_now_is_not_kept() -> None:
    outbox, _ = new_outbox()
    outbox.put(b"now", now=True)
    outbox.leave([])
    with pytest.raises(ConnectionReconnectingError):
        outbox.put(b"now", now=True)
    assert outbox.take() == [b"now"]
