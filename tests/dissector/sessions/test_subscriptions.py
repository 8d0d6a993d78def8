"""Subscriptions of a client."""

from __future__ import annotations

import pytest

from dissect.nats.sessions.quota import EntryQuota
from dissect.nats.sessions.subscriptions import Subscription, Subscriptions, subscription_row
from dissect.nats.types import Direction
from natsync.protocol import Sub, Unsub

SECOND = 10**9


class RecordedSubscriptions(Subscriptions):
    """Keeps what comes out."""

    def __init__(self, entries: int = 1000) -> None:
        self.over: list[Subscription] = []
        self.given_up: list[int] = []
        self.quota = EntryQuota(entries)
        super().__init__(self.quota, self.over.append, self.given_up.append)

    def deliver(self, sid: bytes, ts_ns: int = 0) -> None:
        sub = self.by_sid.get(sid) or self.unknown(sid)
        sub.delivered += 1
        if sub.delivered == sub.max_msgs:
            self.ended(sub, "auto", ts_ns)

    def end(self, ts_ns: int | None = None) -> list[tuple[bytes, str | None, int | None, int]]:
        self.finish(ts_ns)
        assert len(self.over) == self.opened
        assert self.quota.left >= 0 and not self.by_sid
        return [(sub.subject, sub.close, sub.closed_ns, sub.delivered) for sub in self.over]


def test_unsub_ends_it_but_what_is_on_its_way_counts() -> None:
    subs = RecordedSubscriptions()
    subs.open(Sub(b"a", b"1"), 1)
    subs.deliver(b"1")
    subs.unsub(Unsub(b"1"), 5)
    subs.deliver(b"1")
    subs.unsub(Unsub(b"1"), 6)
    assert not subs.over
    assert subs.end(9) == [(b"a", "unsub", 5, 2)]


def test_what_ended_is_reported_after_a_while() -> None:
    subs = RecordedSubscriptions()
    for sid in (b"1", b"2"):
        subs.open(Sub(b"a", sid), 1)
    subs.unsub(Unsub(b"1"), 5)
    subs.unsub(Unsub(b"2"), 5 + 11 * SECOND)
    assert [sub.sid for sub in subs.over] == [b"1"]


def test_a_maximum_counts_from_the_sub() -> None:
    subs = RecordedSubscriptions()
    subs.open(Sub(b"a", b"1"), 1)
    subs.deliver(b"1", 2)
    subs.unsub(Unsub(b"1", 2), 3)
    subs.deliver(b"1", 4)
    assert subs.end(9) == [(b"a", "auto", 4, 2)]
    assert subs.over[0].max_msgs == 2


@pytest.mark.parametrize(
    ("max_msgs", "close"), [(0, "unsub"), (None, "unsub"), (1, "auto"), (2, "auto"), (3, "session")]
)
def test_a_maximum_that_is_reached_ends_it_at_once(max_msgs: int | None, close: str) -> None:
    subs = RecordedSubscriptions()
    subs.open(Sub(b"a", b"1"), 1)
    subs.deliver(b"1")
    subs.deliver(b"1")
    subs.unsub(Unsub(b"1", max_msgs), 5)
    assert subs.end(9) == [(b"a", close, 9 if close == "session" else 5, 2)]


def test_a_session_that_goes_on_leaves_them_open() -> None:
    subs = RecordedSubscriptions()
    subs.open(Sub(b"a", b"1"), 1)
    assert subs.end(None) == [(b"a", None, None, 0)]


def test_a_sid_is_used_again() -> None:
    subs = RecordedSubscriptions()
    subs.open(Sub(b"a", b"1"), 1)
    assert not subs.open(Sub(b"b", b"1"), 2)
    subs.unsub(Unsub(b"1"), 3)
    assert subs.open(Sub(b"c", b"1"), 4)
    subs.deliver(b"1")
    assert subs.end(9) == [(b"a", "unsub", 3, 0), (b"c", "session", 9, 1)]


def test_a_sid_with_a_maximum_is_used_again_when_its_messages_were_lost() -> None:
    subs = RecordedSubscriptions()
    subs.open(Sub(b"a", b"1"), 1)
    subs.unsub(Unsub(b"1", 5), 2)
    assert subs.open(Sub(b"b", b"1"), 4)
    assert subs.end(9) == [(b"a", "auto", 4, 0), (b"b", "session", 9, 0)]


def test_a_message_for_a_sub_that_was_not_captured() -> None:
    subs = RecordedSubscriptions()
    subs.deliver(b"7")
    subs.deliver(b"7")
    subs.unsub(Unsub(b"8"), 3)
    subs.unsub(Unsub(b"7"), 4)
    assert subs.end(9) == [(b"", "unsub", 4, 2)]
    row = subscription_row("s", Direction.ORIGINATOR, subs.over[0])
    assert (row.subject, row.sid, row.opened_ns, row.sender) == (None, "7", None, "originator")


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (b'Permissions Violation for Subscription to "b"', b"2"),
        (b'permissions violation for subscription to "b" using queue "q"', b"3"),
        (b'Permissions Violation for Subscription to "c" (sid "4")', b"4"),
        (b'Permissions Violation for Publish to "b"', None),
        (b"Invalid Subject", b"5"),
        (b"maximum subscriptions exceeded", b"6"),
        (b"Stale Connection", None),
    ],
)
def test_a_refusal_finds_its_subscription(text: bytes, refused: bytes | None) -> None:
    subs = RecordedSubscriptions()
    for sid, subject, queue in (
        (b"1", b"a", b""),
        (b"2", b"b", b""),
        (b"3", b"b", b"q"),
        (b"4", b"c", b""),
        (b"5", b"d..e", b""),
        (b"6", b"f", b""),
    ):
        subs.open(Sub(subject, sid, queue), 1)
    subs.refuse(text, 2)
    subs.refuse(b'Permissions Violation for Subscription to "nothing"', 3)
    subs.finish(9)
    assert [sub.sid for sub in subs.over if sub.close == "refused"] == [refused][: bool(refused)]


def test_memory_is_bounded_and_what_is_given_up_is_reported() -> None:
    subs = RecordedSubscriptions(100)
    for number in range(1000):
        subs.open(Sub(b"a.%d" % number, b"%d" % number), number)
        assert len(subs.by_sid) <= 100
    found = subs.end(2000)
    assert len(found) == subs.opened == 1000
    assert [sub[0] for sub in found] == [b"a.%d" % number for number in range(1000)]
    assert sum(subs.given_up) == sum(sub[1] is None for sub in found) >= 900


def test_without_any_room_each_is_given_up_at_once() -> None:
    subs = RecordedSubscriptions(0)
    subs.open(Sub(b"a", b"1"), 1)
    subs.deliver(b"1")
    assert subs.end(9) == [(b"a", None, None, 0), (b"", None, None, 1)]
    assert subs.given_up == [1, 1]
