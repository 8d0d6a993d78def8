"""Errors of reading: one sentence each, with the names; they survive pickling."""

from __future__ import annotations

import pickle

import pytest

from natsync.jetstream import (
    ConcurrentReadError,
    ConsumerDeletedError,
    ConsumerLeadershipChangedError,
    ConsumerNotReachableError,
    ConsumingError,
    JetStreamError,
    MessagesClosedError,
    MsgAlreadyAckdError,
    NoHeartbeatError,
    NotJSMessageError,
    PullRefusedError,
    SequenceGapError,
    StreamReplacedError,
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConsumerDeletedError("S", "c"), "consumer c of stream S does not exist, or was deleted"),
        (ConsumerLeadershipChangedError("S", "c"), "consumer c of stream S has a new leader"),
        (ConsumerNotReachableError("S", "c"), "consumer c of stream S is not reachable"),
        (MessagesClosedError("S", ""), "reader of stream S was stopped"),
        (
            ConcurrentReadError("S", "c"),
            "consumer c of stream S keeps the order of messages for one thread at a time, "
            "and another one waits",
        ),
        (NoHeartbeatError("S", "c", 2.5), "consumer c of stream S: no heartbeat for 2.5 s"),
        (
            SequenceGapError("S", "c", 5, 7),
            "consumer c of stream S is at sequence 7 where 5 was expected",
        ),
        (
            StreamReplacedError("S", "c"),
            "consumer c of stream S is not what it was: "
            "it was created again, or has lost its last messages",
        ),
        (
            PullRefusedError("S", "c", 409, "Exceeded MaxWaiting"),
            "consumer c of stream S refused a pull request: 409 Exceeded MaxWaiting",
        ),
        (NotJSMessageError("a"), "not a JetStream message: reply subject 'a'"),
        (MsgAlreadyAckdError("a"), "message was already acknowledged: a"),
    ],
)
def test_errors_of_readers_say_their_text_also_after_pickling(
    error: JetStreamError, text: str
) -> None:
    assert str(error) == text
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), text)
    assert type(error).__module__ == "natsync.jetstream"


def test_a_text_has_no_end_of_a_huge_reply_subject() -> None:
    assert len(str(NotJSMessageError("x" * 100_000))) < 300


def test_a_base_for_all_that_happens_to_a_reader() -> None:
    assert issubclass(PullRefusedError, ConsumingError)
    assert issubclass(ConsumingError, JetStreamError)
