"""Windows of requests: results without the callback thread, places that are freed by every end, waiting."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator

import pytest

import natsync
from natsync import errors
from natsync.protocol import HMsg, Msg, Pub

from tests.support.fake_server import Background, FakeServer, Peer
from tests.support.waiting import eventually

TIMEOUT = 10.0


@pytest.fixture
def served() -> Iterator[tuple[natsync.Client, Peer]]:
    with FakeServer() as server, server.client() as both:
        yield both


def number_of(subject: str, payload: bytes | None) -> int:
    if payload is None:
        raise errors.NoRespondersError(subject)
    return int(payload)


def test_results_are_read_where_replies_are_and_no_thread_is_started(
    served: tuple[natsync.Client, Peer],
) -> None:
    nc, peer = served
    window = nc.open_window(10, number_of)
    futures = [window.request("x", timeout=TIMEOUT) for _ in range(3)]
    asked = [peer.until(Pub) for _ in futures]
    assert window.in_flight == 3 and not window.wait(0)
    peer.send(*[Msg(each.reply, b"1", b"", b"%d" % at) for at, each in enumerate(asked)])
    assert window.wait(TIMEOUT) and window.in_flight == 0
    assert [future.result(0) for future in futures] == [0, 1, 2]
    assert not any("callbacks" in thread.name for thread in threading.enumerate())


def test_what_reading_raises_is_the_futures_exception(served: tuple[natsync.Client, Peer]) -> None:
    nc, peer = served
    window = nc.open_window(10, number_of)
    asked = [window.request("x", timeout=TIMEOUT) for _ in range(4)]
    replies = [
        (b"NATS/1.0 503\r\n\r\n", b"", errors.NoRespondersError),
        (b"NATS/1.0 503\r\n\r\n", b"of a responder", ValueError),
        (b"NATS/1.0\r\nA: 1\r\n\r\n", b"", ValueError),
        (b"no headers", b"", ValueError),
    ]
    for future, (block, payload, kind) in zip(asked, replies):
        peer.send(HMsg(peer.until(Pub).reply, b"1", b"", block, payload))
        assert type(future.exception(TIMEOUT)) is kind
    assert window.wait(0) and nc.status is natsync.Status.CONNECTED


def test_room_is_waited_for(served: tuple[natsync.Client, Peer]) -> None:
    nc, peer = served
    window = nc.open_window(2, number_of)
    assert window.wait_for_room(0)
    for _ in range(2):
        window.request("x", timeout=TIMEOUT)
    assert not window.wait_for_room(0.01)
    peer.send(Msg(peer.until(Pub).reply, b"1", b"", b"1"))
    assert window.wait_for_room(TIMEOUT)


def test_a_rescued_future_stays_open_and_frees_its_place(
    served: tuple[natsync.Client, Peer],
) -> None:
    nc, peer = served
    rescued: list[tuple[object, Exception]] = []

    def rescue(future: object, error: Exception) -> bool:
        rescued.append((future, error))
        return len(rescued) == 1

    window = nc.open_window(10, number_of, rescue)
    first, second = (window.request("x", timeout=TIMEOUT) for _ in range(2))
    for _ in range(2):
        peer.send(Msg(peer.until(Pub).reply, b"1", b"", b"none"))
    assert window.wait(TIMEOUT)
    assert isinstance(second.exception(TIMEOUT), ValueError) and not first.done()
    assert [future for future, _ in rescued] == [first, second]
    waiting = Background(lambda: first.result(TIMEOUT))
    window.finish(first, 7)  # type: ignore[arg-type]  # it is a ReplyFuture
    assert waiting.result() == 7


def test_every_end_frees_a_place(served: tuple[natsync.Client, Peer]) -> None:
    nc, peer = served
    window = nc.open_window(10, number_of)
    cancelled = window.request("x")
    late = window.request("x", timeout=0.01)
    assert cancelled.cancel()
    assert isinstance(late.exception(TIMEOUT), errors.RequestTimeoutError)
    with pytest.raises(errors.ProtocolError):
        window.request("a b")
    assert window.in_flight == 0
    lost = window.request("x", timeout=TIMEOUT)
    assert lost.running() is False  # which makes the parts of a Future
    peer.until(Pub)
    peer.reset()
    assert isinstance(lost.exception(TIMEOUT), errors.ConnectionReconnectingError)
    assert window.in_flight == 0


def test_a_full_window_waits_until_half_has_ended(served: tuple[natsync.Client, Peer]) -> None:
    nc, peer = served
    window = nc.open_window(4, number_of)
    for _ in range(4):
        window.request("x", timeout=TIMEOUT)
    asked = [peer.until(Pub) for _ in range(4)]
    call = Background(lambda: window.request("x", timeout=TIMEOUT))
    empty = Background(lambda: window.wait(TIMEOUT))
    peer.send(Msg(asked[0].reply, b"1", b"", b"1"))
    peer.send(Msg(asked[1].reply, b"1", b"", b"1"))
    fifth = peer.until(Pub)
    assert call.result().done() is False and not empty.done
    peer.send(*[Msg(each.reply, b"1", b"", b"1") for each in (*asked[2:], fifth)])
    assert empty.result()


def test_each_request_ends_at_its_own_timeout(served: tuple[natsync.Client, Peer]) -> None:
    nc, _ = served
    window = nc.open_window(10, number_of)
    asked = [window.request("x", timeout=timeout) for timeout in (60.0, 0.2, 60.0, 0.1, 0)]
    late = [asked[4], asked[3], asked[1]]
    for future in late:
        with pytest.raises(errors.RequestTimeoutError, match="within 0"):
            future.result(TIMEOUT)
    assert window.in_flight == 2 and not asked[0].done() and not asked[2].done()


class Interrupted(dict[bytes, object]):
    """The requests in flight of a window: `call` is made just before the first is added, as another thread or
    a signal handler may."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__()
        self.calls = [call]

    def __setitem__(self, token: bytes, future: object) -> None:
        if self.calls:
            self.calls.pop()()
        super().__setitem__(token, future)


@pytest.mark.parametrize("first, second", [(0.1, 60.0), (60.0, 0.1), (0.1, 0.1)])
def test_a_request_that_is_overtaken_ends_at_its_own_timeout(
    served: tuple[natsync.Client, Peer], first: float, second: float
) -> None:
    nc, _ = served
    window = nc.open_window(10, number_of)
    others = []

    def overtake() -> None:
        others.append(window.request("x", timeout=second))

    window.futures = Interrupted(overtake)  # type: ignore[assignment]  # of all results
    futures = [window.request("x", timeout=first), *others]
    for future, timeout in zip(futures, (first, second)):
        if timeout < 1:
            with pytest.raises(errors.RequestTimeoutError, match="within 0.1"):
                future.result(TIMEOUT)
    assert window.in_flight == (first > 1) + (second > 1)


def test_a_deadline_is_known_however_soon_the_driver_looks(
    served: tuple[natsync.Client, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    nc, _ = served
    mux = nc._connection.reply_mux()
    add = mux.deadlines.add

    def add_and_look(token: bytes, timeout: float, now: float) -> None:
        add(token, timeout, now)
        assert mux.deadline <= now + timeout

    monkeypatch.setattr(mux.deadlines, "add", add_and_look)
    window = nc.open_window(10, number_of)
    asked = [window.request("x", timeout=timeout) for timeout in (60.0, 0.1)]
    with pytest.raises(errors.RequestTimeoutError, match="within 0.1"):
        asked[1].result(TIMEOUT)


def test_a_window_with_one_timeout_keeps_no_other_deadlines(
    served: tuple[natsync.Client, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    nc, _ = served
    added: list[float] = []

    def add(token: bytes, timeout: float, now: float) -> None:
        added.append(timeout)

    monkeypatch.setattr(nc._connection.reply_mux().deadlines, "add", add)
    window = nc.open_window(10, number_of)
    for timeout in (60.0, 60.0, 5.0, 60.0):
        window.request("x", timeout=timeout)
    assert added == [5.0, 60.0]


def test_a_window_that_nobody_holds_is_forgotten(served: tuple[natsync.Client, Peer]) -> None:
    nc, _ = served
    future = nc.open_window(10, number_of).request("x", timeout=0.01)
    with pytest.raises(errors.RequestTimeoutError):
        future.result(TIMEOUT)
    mux = nc._connection.reply_mux()
    assert len(mux._windows) == 1
    del future
    eventually(lambda: gc.collect() >= 0 and not mux._windows)


def test_a_window_refuses_invalid_arguments(served: tuple[natsync.Client, Peer]) -> None:
    nc, _ = served
    with pytest.raises(errors.OptionError, match="at least 1"):
        nc.open_window(0, number_of)
    with pytest.raises(TypeError, match="most must be int"):
        nc.open_window("1", number_of)  # type: ignore[arg-type]  # what is tested
