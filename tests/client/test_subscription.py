"""The pending queue: order, limits, episodes of dropping, the end, and counts that close."""

from __future__ import annotations

import threading
from functools import partial
from time import monotonic

import pytest

from natsync._engine.sink import SubscriptionSink
from natsync.errors import (
    BadSubscriptionError,
    ConnectionClosedError,
    MaxMessagesError,
    NextMsgTimeoutError,
    OptionError,
    PermissionsViolationError,
    SyncSubRequiredError,
)
from natsync.protocol import HMsg
from natsync.protocol import Msg as MsgFrame
from natsync.subscription import Subscription

from tests.support.driving import host
from tests.support.fake_server import Background

DENIED = PermissionsViolationError("Permissions Violation ...", "subscription", "a")


def new_sub(
    msgs: int = 100, size: int = 1000, handled: bool = False, ended: list[int | None] | None = None
) -> Subscription:
    sink = SubscriptionSink("a", "", host(ended), (msgs, size))
    sink.has_handler = handled
    return Subscription(sink)


def frames(*payloads: bytes) -> list[MsgFrame | HMsg]:
    return [MsgFrame(b"a", b"1", b"", payload) for payload in payloads]


def counts(sub: Subscription) -> tuple[int, int, int, int]:
    assert sub.received == sub.delivered + sub.dropped + sub.pending_msgs
    return sub.received, sub.delivered, sub.dropped, sub.pending_msgs


def test_messages_in_order() -> None:
    sub = new_sub()
    assert sub._sink.deliver(frames(b"1", b"22")) == 0
    assert (sub.pending_msgs, sub.pending_bytes) == (2, 3)
    assert sub.next_msg(0).data == b"1"
    assert sub.next_msg().data == b"22"
    assert (counts(sub), sub.pending_bytes) == ((2, 2, 0, 0), 0)


def test_no_message_in_time() -> None:
    sub = new_sub()
    for timeout in (0, -1, 0.01):
        with pytest.raises(NextMsgTimeoutError) as caught:
            sub.next_msg(timeout)
        assert (caught.value.subject, caught.value.timeout) == ("a", timeout)


def test_a_waiting_thread_gets_what_comes() -> None:
    sub = new_sub()
    calls = [Background(lambda: sub.next_msg(10).data) for _ in range(3)]
    sub._sink.deliver(frames(b"1"))
    sub._sink.deliver(frames(b"2", b"3"))
    assert {call.result() for call in calls} == {b"1", b"2", b"3"}


def test_new_messages_are_dropped_over_the_limit_of_messages() -> None:
    sub = new_sub(msgs=2)
    assert sub._sink.deliver(frames(b"1", b"2", b"3", b"4")) == 2
    assert sub._sink.deliver(frames(b"5")) == 0  # still the same episode
    assert [sub.next_msg(0).data, sub.next_msg(0).data] == [b"1", b"2"]
    assert sub._sink.deliver(frames(b"6", b"7", b"8")) == 4  # 6 was accepted: a new episode
    assert counts(sub) == (8, 2, 4, 2)


def test_bytes_are_limited_headers_included() -> None:
    sub = new_sub(size=20)
    block = b"NATS/1.0\r\n\r\n"
    assert sub._sink.deliver([HMsg(b"a", b"1", b"", block, bytes(8))]) == 0
    assert sub.pending_bytes == 20
    assert sub._sink.deliver(frames(b"x")) == 1
    assert sub._sink.deliver(frames(b"")) == 0  # nothing fits always
    sub.next_msg(0)
    assert sub._sink.deliver(frames(bytes(20))) == 0
    assert counts(sub) == (4, 1, 1, 2)


def test_negative_limits_are_none() -> None:
    sub = new_sub(msgs=-1, size=-1)
    assert sub._sink.deliver(frames(*[bytes(100)] * 1000)) == 0
    assert sub.pending_msgs == 1000


def test_iteration_ends_with_the_last_message() -> None:
    sub = new_sub()
    sub._sink.deliver(frames(b"1", b"2"))
    sub._sink.end(MaxMessagesError("a"))
    assert [msg.data for msg in sub] == [b"1", b"2"]
    assert list(sub) == []
    with pytest.raises(MaxMessagesError):
        sub.next_msg(0)


def test_unsubscribing_drops_what_is_pending() -> None:
    sub = new_sub()
    sub._sink.deliver(frames(b"1", b"2"))
    sub._sink.end(BadSubscriptionError("a"), discard=True)
    assert (list(sub), sub.closed, counts(sub)) == ([], True, (2, 0, 2, 0))
    assert sub._sink.deliver(frames(b"3")) == 0
    assert counts(sub) == (2, 0, 2, 0)
    with pytest.raises(BadSubscriptionError):
        sub.next_msg(1)


def test_a_lost_connection_is_raised_after_what_is_pending() -> None:
    sub = new_sub()
    sub._sink.deliver(frames(b"1"))
    sub._sink.end(ConnectionClosedError("reset"), quiet=False)
    messages = iter(sub)
    assert next(messages).data == b"1"
    with pytest.raises(ConnectionClosedError, match="reset"):
        next(messages)


def test_a_closed_client_ends_iteration() -> None:
    sub = new_sub()
    sub._sink.end(ConnectionClosedError(), discard=True)
    assert list(sub) == []
    with pytest.raises(ConnectionClosedError):
        sub.next_msg()


def test_the_first_end_counts() -> None:
    sub = new_sub()
    sub._sink.end(MaxMessagesError("a"))
    sub._sink.end(ConnectionClosedError("reset"), quiet=False)
    assert list(sub) == []


def test_the_end_wakes_all_who_wait() -> None:
    sub = new_sub()
    calls = [Background(sub.next_msg) for _ in range(3)]
    sub._sink.end(ConnectionClosedError())
    for call in calls:
        with pytest.raises(ConnectionClosedError):
            call.result()


def test_a_refusal_is_raised_where_messages_are_asked_for() -> None:
    sub = new_sub()
    call = Background(sub.next_msg)
    sub._sink.refuse(DENIED)
    with pytest.raises(PermissionsViolationError):
        call.result()
    with pytest.raises(PermissionsViolationError):
        next(iter(sub))
    sub._sink.deliver(frames(b"1"))  # a reload may allow it again
    assert sub.next_msg(0).data == b"1"


def test_a_handler_takes_all_and_outlives_a_refusal() -> None:
    sub = new_sub(handled=True)
    got: list[bytes] = []
    sub._sink.refuse(DENIED)
    call = Background(lambda: sub._sink.handle(lambda msg: got.append(msg.data)))
    sub._sink.deliver(frames(b"1", b"2"))
    sub._sink.end(ConnectionClosedError("reset"), quiet=False)
    call.result()
    assert got == [b"1", b"2"]
    for ask in (sub.next_msg, sub.__iter__):
        with pytest.raises(SyncSubRequiredError):
            ask()


def test_unsubscribe_is_passed_on_until_the_end() -> None:
    ended: list[int | None] = []
    sub = new_sub(ended=ended)
    sub.unsubscribe(max_msgs=5)
    with pytest.raises(OptionError):
        sub.unsubscribe(max_msgs=0)
    with sub:
        pass
    assert ended == [5, None]
    sub._sink.end(BadSubscriptionError("a"))
    with sub:
        sub.unsubscribe()
    assert ended == [5, None]


def test_every_message_reaches_one_of_many_threads() -> None:
    sub = new_sub(msgs=-1, size=-1)
    got: list[list[int]] = [[] for _ in range(4)]
    started = threading.Barrier(5)

    def consume(into: list[int]) -> None:
        started.wait(10)
        for msg in sub:
            into.append(int(msg.data))

    calls = [Background(partial(consume, into)) for into in got]
    started.wait(10)
    for number in range(0, 4000, 4):
        sub._sink.deliver(frames(*[b"%d" % (number + more) for more in range(4)]))
    sub._sink.end(MaxMessagesError("a"))
    for call in calls:
        call.result()
    assert sorted(sum(got, [])) == list(range(4000))
    assert all(numbers == sorted(numbers) for numbers in got)
    assert counts(sub) == (4000, 4000, 0, 0)


def test_waiting_ends_on_time_under_a_stream_of_wake_ups() -> None:
    sub, start = new_sub(), monotonic()
    call = Background(lambda: sub.next_msg(0.1))
    while not call.done:
        sub._sink.deliver([])
        assert monotonic() - start < 10
    with pytest.raises(NextMsgTimeoutError):
        call.result()
