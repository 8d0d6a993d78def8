"""The outbound: order, back-pressure, times without a connection, closing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from time import monotonic

import pytest

import natsync
from natsync._engine.outbound_buffer import (
    MUCH,
    Chunks,
    Drive,
    Flush,
    Item,
    OutboundBuffer,
    RequestBytes,
    RequestChunks,
    SubscriptionOps,
    length,
)
from natsync.errors import (
    ConnectionClosedError,
    ConnectionReconnectingError,
    OutboundBufferLimitError,
)

from tests.support.fake_server import Background, FakeServer

TIMEOUT = 10.0


class StillWakeup:
    """Counts who rings."""

    def __init__(self) -> None:
        self.awake = False
        self.standby = False
        self.woken = 0
        self.nudged = 0

    def wake(self) -> None:
        self.woken += 1

    def wake_if_due(self) -> None:
        self.nudged += 1


def nobody(done: object, until: float) -> None:
    """Nobody drives here."""


def new_buffer(
    limit: int = 10, timeout: float = TIMEOUT, away_limit: int = 100, drive: Drive = nobody
) -> tuple[OutboundBuffer, StillWakeup]:
    wakeup = StillWakeup()
    outbound = OutboundBuffer(wakeup, drive, threading.RLock(), limit, timeout, away_limit)
    outbound.attach()
    return outbound, wakeup


def put(outbound: OutboundBuffer, data: bytes) -> None:
    outbound.put(data, len(data))


def test_the_buffer_keeps_order_and_nudges_for_each() -> None:
    outbound, wakeup = new_buffer()
    put(outbound, b"a")
    put(outbound, b"b")
    assert wakeup.nudged == 2  # an interrupt may have kept the first from it
    outbound.put_control(SubscriptionOps(b"SUB"))
    assert wakeup.woken == 1
    outbound.put(Chunks((b"PUB", b"x")), 4)
    assert outbound.take_all() == [b"a", b"b", b"SUB", (b"PUB", b"x")]
    assert outbound.take_all() == []
    put(outbound, b"c")
    assert outbound.take_all() == [b"c"]


def test_it_is_quiet_where_somebody_looks_anyway_or_the_caller_does() -> None:
    outbound, wakeup = new_buffer()
    outbound.put(b"a", 1, False)
    wakeup.awake = True
    put(outbound, b"b")
    wakeup.awake, wakeup.standby = False, True
    put(outbound, b"c")
    assert wakeup.nudged == 0


def test_one_may_be_over_the_limit_the_next_waits_for_room() -> None:
    outbound, _ = new_buffer()
    put(outbound, bytes(50))
    call = Background(lambda: put(outbound, b"next"))
    assert outbound.take_all() == [bytes(50)]
    call.result()
    assert outbound.take_all() == [b"next"]


def test_who_waits_for_room_makes_it_where_nobody_else_does() -> None:
    def drive(done: Callable[[], object] | None, until: float) -> None:
        if done is None:  # who fills the buffer sends, too, but the network takes nothing
            return
        assert not done()
        sent.extend(outbound.take_all())
        assert done()

    sent: list[Item] = []
    outbound, _ = new_buffer(drive=drive)
    put(outbound, bytes(50))
    put(outbound, b"next")
    assert (sent, outbound.take_all()) == ([bytes(50)], [b"next"])


def test_who_puts_much_sends_it_but_not_at_every_put() -> None:
    pushed: list[object] = []
    outbound, wakeup = new_buffer(
        limit=10 * MUCH, drive=lambda done, until: pushed.append((done, until))
    )
    half = bytes(MUCH // 2)
    for count in (0, 1, 1, 2, 2):
        put(outbound, half)
        assert len(pushed) == count
    outbound.put(half, len(half), False)  # this one drives anyway
    assert len(pushed) == 2 and pushed[0] == (None, 0.0)
    assert wakeup.nudged == 3
    outbound.take_all()
    put(outbound, half)
    put(outbound, half)
    assert len(pushed) == 3


def test_interest_and_flushes_never_wait() -> None:
    outbound, _ = new_buffer()
    put(outbound, bytes(50))
    outbound.put_control(SubscriptionOps(b"SUB"))
    outbound.flush("token")
    *data, flush = outbound.take_all()
    assert data == [bytes(50), b"SUB"]
    assert isinstance(flush, Flush) and flush.token == "token"


def test_no_room_in_time() -> None:
    outbound, _ = new_buffer(timeout=0.02)
    put(outbound, bytes(50))
    with pytest.raises(OutboundBufferLimitError) as caught:
        put(outbound, b"x")
    assert (caught.value.limit, caught.value.timeout) == (10, 0.02)
    assert outbound.take_all() == [bytes(50)]


def test_closing_refuses_and_frees_those_who_wait() -> None:
    outbound, wakeup = new_buffer()
    last = Flush("last")
    put(outbound, bytes(50))
    calls = [Background(lambda: put(outbound, b"x")) for _ in range(3)]
    outbound.close(lambda: ConnectionClosedError("first"), last=last)
    outbound.close(lambda: ConnectionClosedError("second"))
    for call in calls:
        with pytest.raises(ConnectionClosedError, match="first"):
            call.result()
    with pytest.raises(ConnectionClosedError, match="first"):
        put(outbound, b"x")
    with pytest.raises(ConnectionClosedError, match="first"):
        outbound.put_control(SubscriptionOps(b"SUB"))
    assert outbound.take_all() == [bytes(50), last]
    assert wakeup.woken == 2


def test_nothing_is_lost_between_many_writers_and_one_reader() -> None:
    outbound, _ = new_buffer(limit=500)

    def write(writer: int) -> None:
        for number in range(2000):
            put(outbound, b"%d %d;" % (writer, number))

    calls = [Background(partial(write, writer)) for writer in range(4)]
    taken: list[bytes] = []
    until = monotonic() + 4 * TIMEOUT
    while len(taken) < 8000 and monotonic() < until:
        taken += [item for item in outbound.take_all() if isinstance(item, bytes)]
    for call in calls:
        call.result()
    for writer in range(4):
        numbers = [int(item[2:-1]) for item in taken if item.startswith(b"%d " % writer)]
        assert numbers == list(range(2000))


def test_away_things_are_kept_but_not_those_of_the_old_connection() -> None:
    outbound, _ = new_buffer()
    put(outbound, b"later")
    outbound.put(RequestChunks((b"in", b"pieces")), 1)
    put(outbound, RequestBytes(b"request"))
    outbound.flush("token")
    large = RequestChunks((b"in", b"pieces"))
    unsent = [b"first", SubscriptionOps(b"SUB"), RequestBytes(b"asked"), large]
    assert [flush.token for flush in outbound.detach(unsent)] == ["token"]
    outbound.put_control(SubscriptionOps(b"SUB"))
    put(outbound, b"away")
    with pytest.raises(ConnectionReconnectingError):
        outbound.flush("token")
    assert outbound.take_all() == [b"first", b"later", b"away"]


def test_away_it_is_full_at_once_beyond_its_limit() -> None:
    outbound, _ = new_buffer(timeout=TIMEOUT)
    outbound.detach([])
    put(outbound, bytes(100))
    with pytest.raises(OutboundBufferLimitError, match="while reconnecting"):
        put(outbound, b"x")
    outbound.take_all()
    put(outbound, b"x")
    outbound.attach()
    assert outbound.take_all() == [b"x"]


def test_nothing_is_kept_where_nothing_is_to_be() -> None:
    outbound, _ = new_buffer(away_limit=0)
    outbound.detach([])
    with pytest.raises(ConnectionReconnectingError):
        put(outbound, b"x")


def test_losing_the_connection_frees_who_waits_for_room() -> None:
    outbound, _ = new_buffer()
    put(outbound, bytes(50))
    call = Background(lambda: put(outbound, b"x"))
    outbound.detach([])
    call.result()
    assert outbound.take_all() == [bytes(50), b"x"]


def test_a_message_and_its_flush_are_sent_on_one_connection_or_not_at_all() -> None:
    outbound, _ = new_buffer()
    outbound.flush("before", RequestBytes(b"sent"))
    ask, flush = outbound.take_all()
    assert ask == b"sent" and isinstance(flush, Flush) and flush.token == "before"
    outbound.flush("token", RequestBytes(b"lost"))
    assert [flush.token for flush in outbound.detach([])] == ["token"]
    with pytest.raises(ConnectionReconnectingError):
        outbound.flush("token", RequestBytes(b"away"))
    outbound.attach()
    assert outbound.take_all() == []


def test_a_message_with_its_flush_waits_for_room() -> None:
    outbound, _ = new_buffer()
    put(outbound, bytes(50))
    call = Background(lambda: outbound.flush("token", RequestBytes(b"next")))
    assert outbound.take_all() == [bytes(50)]
    call.result()
    outbound.flush("more")  # which does not
    assert [*map(length, outbound.take_all())] == [4, 0, 0]
    put(outbound, bytes(50))
    outbound._timeout = 0.0
    with pytest.raises(OutboundBufferLimitError):
        outbound.flush("token", RequestBytes(b"late"))


class Meddler(list[Item]):
    """Does `act` after an `append`, as another thread may."""

    act: Callable[[], object] = staticmethod(lambda: None)

    def append(self, item: Item) -> None:
        super().append(item)
        self.act()


def meddled(act: Callable[[OutboundBuffer], object]) -> OutboundBuffer:
    outbound, _ = new_buffer()
    items = Meddler()
    items.act = lambda: act(outbound)
    outbound.items = items
    return outbound


def refuse(outbound: OutboundBuffer) -> None:
    outbound.close(lambda: ConnectionClosedError("closed"))


def test_what_is_put_while_it_is_closed_is_taken_by_somebody_or_refused() -> None:
    outbound = meddled(refuse)
    with pytest.raises(ConnectionClosedError):
        put(outbound, b"x")
    assert outbound.take_all() == []
    taken: list[Item] = []
    outbound = meddled(lambda outbound: (refuse(outbound), taken.extend(outbound.take_all())))
    put(outbound, b"x")
    assert taken == [b"x"]


def test_what_is_put_while_the_connection_is_lost_is_kept() -> None:
    outbound = meddled(lambda outbound: outbound.detach([b"before"]))
    put(outbound, b"x")
    assert outbound.take_all() == [b"before", b"x"]


def test_what_is_taken_before_its_size_is_known_fills_nothing() -> None:
    outbound = meddled(lambda outbound: outbound.take_all())
    outbound._timeout = 0.0
    put(outbound, bytes(50))
    assert not outbound.is_full
    put(outbound, bytes(50))


def test_what_comes_while_all_is_taken_stays() -> None:
    class Late(list[Item]):
        def __getitem__(self, at: object) -> list[Item]:  # type: ignore[override]  # only slices here
            taken = self.copy()
            self.append(b"late")
            return taken

    outbound, _ = new_buffer(limit=1000)
    outbound.items = Late([b"early"])
    assert outbound.take_all() == [b"early"]
    assert list(outbound.items) == [b"late"]


def test_sizes_of_all_kinds() -> None:
    items = [
        b"four",
        RequestBytes(b"ask"),
        SubscriptionOps(b"SUB 1"),
        Chunks((b"PUB", b"", b"x")),
        Flush("token"),
    ]
    assert [*map(length, items)] == [4, 3, 5, 4, 0]


def test_the_timeout_of_a_call_includes_the_wait_for_room() -> None:
    connect = partial(natsync.connect, write_timeout=0.05)
    payload = bytes(64 << 10)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        nc._connection.reply_mux()
        refused = 0
        while refused < 10:  # after the first, a busy machine may yet take what it had no time for
            try:
                nc.publish("a", payload)
                refused = 0
            except OutboundBufferLimitError:
                refused += 1
        calls: list[Callable[[float], object]] = [
            lambda timeout: nc.request("x", payload, timeout=timeout),
            lambda timeout: nc.request_async("x", payload, timeout=timeout),
            lambda timeout: nc.publish_confirmed("x", payload, timeout=timeout),
        ]
        for call in calls:
            with pytest.raises(OutboundBufferLimitError, match="full after 0.01 s"):
                call(0.01)
            with pytest.raises(OutboundBufferLimitError, match="full after 0.05 s"):
                call(10.0)
