"""Supplies: scripts of `this arrived, do that`, with a clock that the test holds."""

from __future__ import annotations

import pytest

from natsync.errors import ConnectionReconnectingError, Error
from natsync.jetstream import (
    ConsumerDeletedError,
    ConsumerLeadershipChangedError,
    ConsumerNotReachableError,
    NoHeartbeatError,
    PinIdMismatchError,
    PullRefusedError,
    SequenceGapError,
)
from natsync.jetstream.ordered_reader import OrderedSupply
from natsync.jetstream.pull_requests import Meaning, Pin, PullPlan, PullStatus
from natsync.jetstream.push import PushSupply
from natsync.jetstream.supply import GO_ON, LOOK, NEVER, Backoff, Effect, Supply, Then

REFUSED = PullRefusedError("S", "c", 409, "Exceeded MaxWaiting")
DELETED = ConsumerDeletedError("S", "c")
MOVED = ConsumerLeadershipChangedError("S", "c")
UNREACHABLE = ConsumerNotReachableError("S", "c")
PINNED = PinIdMismatchError("S", "c")
LOST = ConnectionReconnectingError()
RESET, FAIL = Then.RESET, Then.FAIL


def pull(**plan: float) -> Supply:
    """The supply of `Messages`, with a request open."""
    supply = Supply(PullPlan(**plan), "S", "c", Pin(), 100.0)  # type: ignore[arg-type]  # ints among them
    assert supply.request(100.0, True)
    return supply


def ordered() -> OrderedSupply:
    """The supply of an ordered reader, with a request open."""
    supply = OrderedSupply(PullPlan(heartbeat=5.0), "S", "c", Pin(), 100.0)
    assert supply.request(100.0, True)
    return supply


def test_pauses_grow() -> None:
    backoff = Backoff()
    pauses = []
    for _ in range(9):
        backoff.failed(100.0, True)
        pauses.append(max(0.0, backoff.until - 100.0))
    assert pauses == [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    backoff.worked()
    backoff.failed(100.0, False)
    assert backoff.until == 100.25


@pytest.mark.parametrize(
    ("status", "endless", "in_order"),
    [
        (PullStatus(Meaning.HEARTBEAT), GO_ON, GO_ON),
        (PullStatus(Meaning.END), GO_ON, GO_ON),
        (PullStatus(Meaning.AWAY, LOST), Effect(Then.GO_ON, LOST), Effect(Then.GO_ON, LOST)),
        (PullStatus(Meaning.RECONNECTED), GO_ON, Effect(RESET)),
        (PullStatus(Meaning.INTERRUPTED, MOVED), Effect(Then.GO_ON, MOVED), Effect(RESET, MOVED)),
        (PullStatus(Meaning.PIN_LOST, PINNED), Effect(Then.GO_ON, PINNED), Effect(RESET, PINNED)),
        (PullStatus(Meaning.BUSY, REFUSED), Effect(Then.GO_ON, REFUSED), Effect(RESET, REFUSED)),
        (
            PullStatus(Meaning.UNREACHABLE, UNREACHABLE),
            Effect(Then.CHECK, UNREACHABLE),
            Effect(RESET, UNREACHABLE),
        ),
        (PullStatus(Meaning.FATAL, DELETED), Effect(FAIL, DELETED), Effect(RESET, DELETED)),
        (PullStatus(Meaning.FATAL, REFUSED), Effect(FAIL, REFUSED), Effect(FAIL, REFUSED)),
        (PullStatus(Meaning.TOO_LARGE, REFUSED, 1, 10), GO_ON, GO_ON),
        (
            PullStatus(Meaning.TOO_LARGE, REFUSED, 1, 0),
            Effect(FAIL, REFUSED),
            Effect(FAIL, REFUSED),
        ),
    ],
)
def test_what_follows_from_a_status(status: PullStatus, endless: Effect, in_order: Effect) -> None:
    assert pull().status(status, 101.0) == endless
    assert ordered().status(status, 101.0) == in_order


@pytest.mark.parametrize("meaning", [Meaning.INTERRUPTED, Meaning.END, Meaning.RECONNECTED])
def test_a_request_that_is_void_is_sent_again_at_once(meaning: Meaning) -> None:
    supply = pull(max_msgs=10)
    assert supply.request(100.0, True) is None  # one is open
    supply.status(PullStatus(meaning), 101.0)
    request = supply.request(101.0, True)
    assert request and request.batch == 10


def test_requests_that_fail_are_sent_again_after_pauses() -> None:
    supply = pull()
    for pause in (0.25, 0.5, 1.0):
        supply.status(PullStatus(Meaning.UNREACHABLE, UNREACHABLE), 200.0)
        assert supply.wake(200.0, 200.0, True) == 200.0 + pause
        assert supply.request(200.0 + pause - 0.01, True) is None
        assert supply.request(200.0 + pause, True)
    supply.status(PullStatus(Meaning.HEARTBEAT), 201.0)
    supply.status(PullStatus(Meaning.INTERRUPTED, MOVED), 201.0)
    assert supply.request(201.0, True)


def test_nothing_is_asked_for_without_a_connection() -> None:
    supply = pull()
    supply.status(PullStatus(Meaning.AWAY, LOST), 101.0)
    assert supply.request(101.0, False) is None
    assert supply.wake(101.0, 101.0, False) == 101.0 + LOOK
    assert supply.look(500.0, 101.0, False) is None
    supply.status(PullStatus(Meaning.RECONNECTED), 501.0)
    assert supply.request(501.0, True)


def test_nothing_is_asked_for_when_it_closes() -> None:
    supply = pull()
    supply.closing = True
    supply.status(PullStatus(Meaning.END), 101.0)
    assert supply.request(101.0, True) is None
    assert supply.wake(101.0, 101.0, True) == NEVER
    assert supply.look(500.0, 101.0, True) is None


@pytest.mark.parametrize(
    ("supply", "then"), [(pull(heartbeat=5.0), Then.CHECK), (ordered(), RESET)]
)
def test_a_silence_of_two_heartbeats_raises_the_alarm(supply: Supply, then: Then) -> None:
    assert supply.wake(100.0, 100.0, True) == 110.0
    assert supply.look(109.9, 100.0, True) is None
    supply.status(PullStatus(Meaning.HEARTBEAT), 105.0)
    assert supply.look(114.9, 100.0, True) is None
    assert supply.look(115.0, 106.0, True) is None  # the program takes messages only since then
    effect = supply.look(116.0, 106.0, True)
    assert effect and effect.then is then and isinstance(effect.error, NoHeartbeatError)
    if then is Then.CHECK:
        assert supply.request(116.0, True)


def test_a_lost_pin_is_forgotten() -> None:
    supply = Supply(PullPlan(group="A"), "S", "c", Pin(), 100.0)
    supply.pin.id = "mine"
    request = supply.request(100.0, True)
    assert request and request.pin_id == "mine"
    supply.status(PullStatus(Meaning.PIN_LOST, PINNED), 101.0)
    request = supply.request(101.0, True)
    assert request and request.pin_id == ""


def test_a_heartbeat_tells_of_a_message_that_an_ordered_reader_has_lost() -> None:
    supply = ordered()
    supply.expected = 8
    assert supply.status(PullStatus(Meaning.HEARTBEAT, last_consumer_seq=7), 101.0) == GO_ON
    effect = supply.status(PullStatus(Meaning.HEARTBEAT, last_consumer_seq=9), 101.0)
    assert effect.then is RESET and str(effect.error) == str(SequenceGapError("S", "c", 8, 9))
    supply.begin("d")
    assert (supply.expected, supply.open.msgs, supply.consumer) == (1, 0, "d")


def pushed(beat: float = 5.0, shared: bool = False) -> PushSupply:
    return PushSupply("S", "c", beat, shared, 100.0)


def gap(expected: int, found: int) -> str:
    return str(SequenceGapError("S", "c", expected, found))


def told(effect: Effect | None) -> str:
    return "" if effect is None or effect.error is None else str(effect.error)


def test_gaps_of_a_push_consumer() -> None:
    supply = pushed()
    assert supply.follow(4) is None
    assert supply.follow(5) is None
    assert told(supply.follow(9)) == gap(6, 9)
    assert supply.follow(9) is None  # the message that came after the gap
    assert told(supply.heartbeat(9, "", 101.0)) == ""
    assert told(supply.heartbeat(11, "", 101.0)) == gap(10, 12)
    assert supply.follow(1) is None  # a new leader has started again
    assert told(supply.heartbeat(0, "", 101.0)) == ""
    assert told(pushed(shared=True).heartbeat(7, "", 101.0)) == ""


def test_a_flow_control_request_is_answered_once() -> None:
    supply = pushed()
    assert supply.heartbeat(None, "fc.1", 101.0).answer == "fc.1"
    assert supply.heartbeat(None, "fc.1", 102.0).answer == ""
    assert supply.heartbeat(None, "fc.2", 103.0).answer == "fc.2"
    supply.status(PullStatus(Meaning.AWAY, LOST), 104.0)  # the answer may be lost, too
    assert supply.heartbeat(None, "fc.2", 105.0).answer == "fc.2"


def test_the_silence_of_a_push_consumer() -> None:
    supply = pushed()
    assert supply.wake(100.0, 100.0, True) == 110.0
    assert supply.look(109.0, 100.0, True) is None
    effect = supply.look(110.0, 100.0, True)
    assert effect and effect.then is Then.CHECK and isinstance(effect.error, NoHeartbeatError)
    assert supply.look(110.0, 100.0, True) is None
    assert supply.look(200.0, 100.0, False) is None
    assert pushed(beat=0.0).wake(100.0, 100.0, True) == NEVER


def test_a_refusal_ends_a_push_consumer() -> None:
    refusal: Error = REFUSED
    assert pushed().status(PullStatus(Meaning.FATAL, refusal), 101.0) == Effect(FAIL, refusal)
