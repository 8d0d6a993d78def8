"""The engine's side of a subscription: refused subjects, its end, and a forked child's copy."""

from __future__ import annotations

import pytest

from natsync._engine.sink import SubscriptionSink
from natsync.errors import BadSubscriptionError, Error, ForkedError, MaxMessagesError, ProtocolError

from tests.client.test_subscription import frames
from tests.support.driving import host


@pytest.mark.parametrize(
    ("subject", "queue"), [("", ""), ("a b", ""), ("a..b", ""), ("a.>.b", ""), ("a", "q q")]
)
def test_what_the_server_would_refuse_is_refused_here(subject: str, queue: str) -> None:
    with pytest.raises(ProtocolError):
        SubscriptionSink(subject, queue, host(), (1, 1))


def test_why_it_ended_is_reported_once() -> None:
    reported: list[Error] = []
    sink = SubscriptionSink("a", "", host(), (1, 1), on_close=reported.append)
    sink.end(MaxMessagesError("a"))
    sink.end(BadSubscriptionError("a"))
    assert [type(error) for error in reported] == [MaxMessagesError]


def test_a_forked_childs_copy_has_ended_even_where_its_lock_is_held_for_ever() -> None:
    sink = SubscriptionSink("a", "", host(), (10, 100))
    sink.deliver(frames(b"1"))
    sink.gather()
    at_hand = sink.pending.at_hand
    sink.deliver(frames(b"2"))
    sink.pending._lock.acquire()  # by a thread that the child does not have
    sink.abandon()
    assert sink.closed and not at_hand and sink.pending.at_hand is at_hand
    with pytest.raises(ForkedError):
        sink.take(0)
