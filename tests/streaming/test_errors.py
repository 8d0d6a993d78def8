"""Errors: each says its facts in one sentence, and survives pickling."""

from __future__ import annotations

import pickle

import pytest

import natsync
from natsync import streaming
from natsync.protocol.streaming import PubAck
from natsync.streaming.errors import read, refused

TEXTS = [
    (
        streaming.UnknownClusterError("c", "nobody listens on _STAN.discover.c"),
        "no NATS Streaming server of the cluster 'c': nobody listens on _STAN.discover.c",
    ),
    (
        streaming.RefusedError("publishing to 'a'", "too many channels"),
        "publishing to 'a': too many channels",
    ),
    (
        streaming.InvalidChannelError("a b"),
        "invalid channel 'a b': it must be tokens between dots, none empty, "
        "without blanks, *, > and /",
    ),
    (streaming.ResponseError("_STAN.sub.c", "why"), "malformed message on _STAN.sub.c: why"),
    (streaming.PubAckTimeoutError("a", "g", 30.0), "no acknowledgement of message g on a within 30 s"),
    (
        streaming.ConnectionLostError("88 pings without an answer"),
        "connection to the streaming server lost: 88 pings without an answer",
    ),
    (
        streaming.ConnectionLostError("why", ("g1", "g2")),
        "connection to the streaming server lost: why; 2 messages not acknowledged",
    ),
    (
        streaming.ManualAckError("a"),
        "cannot manually ack: the subscription to a acknowledges by itself",
    ),
    (streaming.UnsupportedError("closing"), "not supported by the server: closing"),
]  # fmt: skip


@pytest.mark.parametrize("error, text", TEXTS, ids=lambda value: str(value)[:20])
def test_errors_of_streaming_say_their_text(error: streaming.StreamingError, text: str) -> None:
    assert str(error) == text
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and repr(again) == repr(error)
    assert isinstance(error, natsync.Error) and type(error).__module__ == "natsync.streaming"


@pytest.mark.parametrize(
    "text, kind",
    [
        ("stan: clientID already registered", streaming.DuplicateClientError),
        ("stan: duplicate durable registration", streaming.DuplicateDurableError),
        ("stan: unknown clientID", streaming.UnknownClientError),
        ("too many channels", streaming.RefusedError),
    ],
)
def test_what_the_server_refuses(text: str, kind: type[streaming.RefusedError]) -> None:
    error = refused("doing", text)
    assert type(error) is kind and (error.operation, error.text) == ("doing", text)


def test_timeouts_and_lost_connections_are_builtin_errors_too() -> None:
    assert issubclass(streaming.PubAckTimeoutError, TimeoutError)
    assert issubclass(streaming.ConnectionLostError, ConnectionError)


def test_bytes_that_are_no_message_name_the_subject() -> None:
    assert read(PubAck, "a", b"\n\x01g") == PubAck("g")
    with pytest.raises(
        streaming.ResponseError, match="on a: PubAck with a truncated field at byte 0"
    ):
        read(PubAck, "a", b"\n\x05g")
