"""The queue of one subscription: limits, what is over them, and when it is idle."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import monotonic

import pytest

from natsync._engine.pending_queue import Overflow, PendingQueue
from natsync.errors import BadSubscriptionError, ConnectionReconnectingError
from natsync.message import Delivered

from tests.client.test_subscription import frames
from tests.support.driving import idle
from tests.support.fake_server import Background


def new_pending(
    most: int = 2, most_bytes: int = -1, overflow: Overflow = Overflow.DROP_NEW
) -> PendingQueue:
    return PendingQueue(most, most_bytes, overflow, idle, threading.RLock())


def taken(pending: PendingQueue) -> list[bytes]:
    got = []
    while frame := pending.take(0, True):
        got.append(frame.payload)
    return got


def numbers(*payloads: int) -> Sequence[Delivered]:
    return frames(*(b"%d" % number for number in payloads))


def test_new_messages_are_dropped_and_an_episode_is_reported_once() -> None:
    pending = new_pending()
    assert pending.put(numbers(1, 2, 3, 4)) == 2
    assert pending.put(numbers(5)) == 0 and pending.slow
    assert taken(pending) == [b"1", b"2"]
    assert pending.put(numbers(6)) == 0 and not pending.slow
    assert (pending.received, pending.dropped, len(pending), pending.delivered) == (6, 3, 1, 2)


def test_a_limit_that_is_already_passed_admits_nothing() -> None:
    pending = new_pending(most=-1)
    pending.put(numbers(1, 2, 3))
    assert not pending.limit(2)
    pending.put(numbers(4, 5, 6))
    assert (taken(pending), pending.received) == ([b"1", b"2", b"3"], 3)


def test_old_messages_make_room() -> None:
    pending = new_pending(overflow=Overflow.DROP_OLD)
    assert pending.put(numbers(1, 2, 3, 4)) == 2
    assert taken(pending) == [b"3", b"4"]
    assert (pending.received, pending.dropped, pending.delivered) == (4, 2, 2)


def test_a_message_larger_than_all_room_is_dropped_and_no_other() -> None:
    pending = new_pending(most=-1, most_bytes=3, overflow=Overflow.DROP_OLD)
    pending.put(frames(b"a", b"b"))
    assert pending.put(frames(b"1234")) == 1
    assert pending.put(frames(b"c")) == 0
    assert taken(pending) == [b"a", b"b", b"c"]


def test_a_full_queue_that_drops_nothing_says_so() -> None:
    pending = new_pending(overflow=Overflow.BLOCK)
    pending.put(numbers(1))
    assert not pending.is_full
    pending.put(numbers(2, 3))
    assert pending.is_full and pending.dropped == 0
    pending.take(0, True)
    assert pending.is_full
    pending.take(0, True)
    assert not pending.is_full


def test_idle_is_when_all_is_taken_and_handled() -> None:
    pending = new_pending(most=-1)
    pending.put(numbers(1, 2))
    assert pending.wait_idle(monotonic()) == 2
    frame = pending.take(0, True, thread=-1)
    pending.close(BadSubscriptionError("a"), discard=False)
    call = Background(lambda: pending.wait_idle(monotonic() + 10))
    assert pending.wait_idle(0) == 2
    pending.take(0, True)
    pending.finish(frame)
    assert call.result() == 0


def test_who_takes_the_last_message_without_a_handler_ends_the_wait() -> None:
    pending = new_pending()
    pending.put(numbers(1, 2))
    call = Background(lambda: pending.wait_idle(monotonic() + 10))
    assert taken(pending) == [b"1", b"2"]
    assert call.result() == 0


def test_what_is_left_is_counted_at_the_end_of_the_wait() -> None:
    pending = new_pending()
    pending.put(numbers(1, 2))
    call = Background(lambda: pending.wait_idle(monotonic() + 0.2))
    pending.take(0, True)
    assert call.result() == 1


def test_gathered_messages_are_pending_until_they_are_taken() -> None:
    pending = new_pending(most=-1)
    pending.put(numbers(1, 2, 3))
    pending.gather()
    assert [frame.payload for frame in pending.at_hand] == [b"1", b"2", b"3"]
    assert (len(pending), pending.delivered, pending.wait_idle(0)) == (3, 0, 3)
    pending.at_hand.popleft()
    assert (len(pending), pending.delivered) == (2, 1)
    pending.close(BadSubscriptionError("a"), discard=True)
    assert (len(pending), pending.delivered, pending.dropped) == (0, 1, 2)


def test_nothing_is_gathered_across_an_outage() -> None:
    pending = new_pending()
    outages: list[object] = []
    pending.on_outage = outages.append
    pending.put(numbers(1))
    pending.mark(None)
    pending.put(numbers(2))
    pending.gather()
    assert not pending.at_hand
    assert taken(pending) == [b"1", b"2"] and outages == [None]


def test_the_messages_of_a_run_are_pending_until_they_are_taken() -> None:
    pending = new_pending(most=4, most_bytes=20)
    pending.put(frames(b"1", b"22", b"333", b"4444"))
    first = pending.next(threading.get_ident() + 1)
    pending.begin_run()
    assert (len(pending), pending.size, pending.delivered, pending.wait_idle(0)) == (3, 9, 1, 4)
    run = pending.run()
    assert next(run).payload == b"22"
    assert (len(pending), pending.size, pending.delivered, pending.wait_idle(0)) == (2, 7, 2, 3)
    assert pending.put(frames(b"5", b"6", b"7")) == 1, "two are in the run, two more are the limit"
    assert [frame.payload for frame in run] == [b"333", b"4444"]
    assert (len(pending), pending.size, pending.delivered, pending.wait_idle(0)) == (2, 2, 4, 3)
    pending.finish(first)
    assert pending.wait_idle(0) == 2
    pending.put(frames(bytes(18)))
    assert pending.size == 20
    assert pending.put(frames(b"8")) == 2 and taken(pending) == [b"5", b"6", bytes(18)]


def test_the_end_drops_the_rest_of_a_run() -> None:
    pending = new_pending(most=-1)
    pending.put(numbers(1, 2, 3))
    pending.begin_run()
    run = pending.run()
    assert next(run).payload == b"1"
    pending.put(numbers(4))
    pending.close(BadSubscriptionError("a"), discard=True)
    assert [*run] == []
    assert (len(pending), pending.size, pending.delivered, pending.dropped) == (0, 0, 1, 3)


@pytest.mark.parametrize("overflow", [Overflow.DROP_OLD, Overflow.BLOCK])
def test_messages_that_may_have_to_make_room_are_taken_one_by_one(overflow: Overflow) -> None:
    pending = new_pending(overflow=overflow)
    pending.put(numbers(1, 2))
    pending.begin_run()
    assert [*pending.run()] == [] and taken(pending) == [b"1", b"2"]


def test_an_outage_comes_between_the_messages_of_a_handler() -> None:
    pending = new_pending(most=-1)
    reported: list[object] = []
    pending.on_outage = reported.append
    pending.put(numbers(1))
    pending.begin_run()
    pending.mark(None)
    pending.put(numbers(2))
    reported += [frame.payload for frame in pending.run()]
    pending.begin_run()
    assert [*pending.run()] == []
    reported += taken(pending)
    assert reported == [b"1", None, b"2"]


def test_what_the_waiting_thread_handles_itself_does_not_count() -> None:
    pending = new_pending()
    pending.put(numbers(1))
    pending.take(0, True, threading.get_ident())
    assert pending.wait_idle(0) == 0


def test_nothing_comes_after_the_end() -> None:
    pending = new_pending()
    assert pending.close(BadSubscriptionError("a"), discard=False)
    assert not pending.close(BadSubscriptionError("b"), discard=False)
    assert pending.put(numbers(1)) == 0 and pending.received == 0
    with pytest.raises(BadSubscriptionError, match="a has ended"):
        pending.take(0, True)


def test_outages_are_reported_between_the_messages_before_and_after() -> None:
    reported: list[object] = []
    pending = new_pending(most=-1)
    pending.mark(None)  # nobody wants to know
    pending.on_outage = reported.append
    lost = ConnectionReconnectingError("reset")
    pending.put(numbers(1, 2))
    pending.mark(lost)
    pending.mark(None)
    pending.put(numbers(3))
    assert pending.turns == 5
    while frame := pending.take(0, True):
        reported.append(frame.payload)
    assert reported == [b"1", b"2", lost, None, b"3"]
    assert (pending.received, pending.delivered, pending.turns) == (3, 3, 0)


def test_who_waits_learns_of_an_outage_and_waits_on() -> None:
    is_reported = threading.Event()
    pending = new_pending()
    pending.on_outage = lambda error: is_reported.set()
    call = Background(lambda: pending.take(monotonic() + 10, True))
    pending.mark(ConnectionReconnectingError("reset"))
    assert is_reported.wait(10) and not call.done
    pending.put(numbers(1))
    frame = call.result()
    assert frame and frame.payload == b"1"


def test_an_outage_after_dropped_messages_is_reported_at_its_place() -> None:
    reported: list[object] = []
    pending = new_pending(overflow=Overflow.DROP_OLD)
    pending.on_outage = reported.append
    pending.put(numbers(1, 2))
    pending.mark(None)
    pending.put(numbers(3, 4, 5))
    assert taken(pending) == [b"4", b"5"] and reported == [None]
    pending.close(BadSubscriptionError("a"), discard=False)
    pending.mark(None)
    assert pending.turns == 0
