"""Sids, and what a new connection is told of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from natsync._engine.subscription_table import SubscriptionTable, limit, subscribe, unsubscribe
from natsync.errors import ConnectionReconnectingError, Error, PermissionsViolationError
from natsync.message import Delivered


@dataclass(eq=False)
class Listening:
    """A sink that notes what it is told."""

    subject: str
    queue: str = ""
    max_msgs: int | None = None
    received: int = 0
    received_before: int = 0
    refused: Error | None = None
    sid: bytes = b""
    has_handler: bool = False
    ended: Error | None = None
    is_full: bool = False
    lost: Error | None = None

    @property
    def wire_subject(self) -> bytes:
        return self.subject.encode()

    @property
    def wire_queue(self) -> bytes:
        return self.queue.encode()

    def deliver(self, frames: Sequence[Delivered]) -> int:
        return 0

    def refuse(self, error: Error) -> None:
        self.refused = error

    def disconnected(self, error: ConnectionReconnectingError) -> None:
        self.lost = error

    def resubscribed(self) -> None:
        self.received_before = self.received

    def end(self, error: Error, *, discard: bool = False, quiet: bool = True) -> None:
        self.ended = error


def test_sids_are_never_used_again() -> None:
    table = SubscriptionTable()
    first = Listening("a")
    assert table.add(first) == b"1"
    assert table.get(b"1") is first
    assert table.remove(b"1") is first and table.remove(b"1") is None
    assert table.add(first) == b"2"


def test_limits_count_from_the_connection_at_hand() -> None:
    listening = Listening("a", max_msgs=10, received=4)
    assert subscribe(b"1", listening) == b"SUB a 1\r\nUNSUB 1 10\r\n"
    listening.resubscribed()
    assert limit(b"1", listening) == b"UNSUB 1 6\r\n"
    assert limit(b"1", Listening("a")) == b""
    assert unsubscribe(b"1") == b"UNSUB 1\r\n"


def test_a_new_connection_gets_all_interest() -> None:
    table = SubscriptionTable()
    table.add(Listening("a", queue="q"))
    table.add(Listening("b", max_msgs=3, received=1))
    assert table.wire() == b"SUB a q 1\r\nSUB b 2\r\nUNSUB 2 2\r\n"


def test_a_refusal_is_reported_by_subject_and_queue() -> None:
    table = SubscriptionTable()
    meant, other = Listening("a", queue="q"), Listening("a")
    table.add(meant)
    table.add(other)
    error = PermissionsViolationError("no", "subscription", "a", "q")
    table.deny(error)
    assert (meant.refused, other.refused) == (error, None)


def test_a_refusal_with_a_sid_is_about_that_subscription() -> None:
    """Servers before 2.12.14 leave out the queue (server/client.go: processSubsOnConfigReload)."""
    table = SubscriptionTable()
    sinks = [Listening("a", "q"), Listening("a", "q"), Listening("a")]
    for sink in sinks:
        table.add(sink)
    text = 'Permissions Violation for Subscription to "a" (sid "2")'
    error = PermissionsViolationError(text, "subscription", "a")
    table.deny(error, b"2")
    assert [sink.refused for sink in sinks] == [None, error, None]
    table.deny(PermissionsViolationError(text.replace("2", "9"), "subscription", "a"), b"9")
    assert sinks[2].refused is None


def test_too_many_tokens_are_too_many_for_every_queue() -> None:
    """The server names no queue (server/client.go: maxTokensViolation)."""
    table = SubscriptionTable()
    sinks = [Listening("a.b", "q"), Listening("a.b"), Listening("a.c", "q")]
    for sink in sinks:
        table.add(sink)
    text = 'Permissions Violation for Subscription to "a.b", too many tokens'
    error = PermissionsViolationError(text, "subscription", "a.b")
    table.deny(error)
    assert [sink.refused for sink in sinks] == [error, error, None]


def test_all_learn_that_the_connection_is_lost() -> None:
    table = SubscriptionTable()
    first, second = Listening("a"), Listening("b")
    table.add(first)
    table.add(second)
    lost = ConnectionReconnectingError("reset")
    table.disconnected(lost)
    assert first.lost is second.lost is lost
    assert [sink for _, sink in table.all()] == [first, second]


def test_a_refused_publish_says_nothing_of_subscriptions() -> None:
    table = SubscriptionTable()
    listening = Listening("a")
    table.add(listening)
    table.deny(PermissionsViolationError("no", "publish", "a"))
    assert listening.refused is None
