"""The exceptions that NATS Streaming adds to those of `natsync`; all are subclasses of
`StreamingError`.

A refusal of the server becomes a `RefusedError` with the server's text; refusals that programs act
on have their own classes. The texts are those of nats-streaming-server (server/server.go).
"""

from __future__ import annotations

from typing import TypeVar

from ..errors import Facts
from ..protocol import ProtocolError
from ..protocol.streaming import StreamingMessage

__all__ = [
    "ConnectionLostError",
    "DuplicateClientError",
    "DuplicateDurableError",
    "InvalidChannelError",
    "ManualAckError",
    "PubAckTimeoutError",
    "RefusedError",
    "ResponseError",
    "StreamingError",
    "UnknownClientError",
    "UnknownClusterError",
    "UnsupportedError",
    "read",
    "refused",
]

_M = TypeVar("_M", bound=StreamingMessage)


class StreamingError(Facts):
    """The base of all errors of `natsync.streaming`."""


class UnknownClusterError(StreamingError):
    """No streaming server of `cluster_id` answered: the cluster has another id, or is not
    running."""

    cluster_id: str
    reason: str

    _text = "no NATS Streaming server of the cluster {cluster_id!r}: {reason}"


class RefusedError(StreamingError):
    """The server refused `operation`; `text` is the server's reason."""

    operation: str
    text: str

    _text = "{operation}: {text}"


class DuplicateClientError(RefusedError):
    """Another client with the same id is connected, and answers the server."""


class DuplicateDurableError(RefusedError):
    """This client already has a subscription to the channel with the same durable name."""


class UnknownClientError(RefusedError):
    """The server no longer knows this client: it restarted without its store, or gave up on the
    client."""


class InvalidChannelError(StreamingError, ValueError):
    """A name that no channel may have: see `natsync.protocol.streaming.is_channel`."""

    channel: str

    _text = (
        "invalid channel {channel!r}: it must be tokens between dots, none empty, "
        "without blanks, *, > and /"
    )


class ResponseError(StreamingError):
    """The message that arrived on `subject` is not one that the protocol allows there."""

    subject: str
    reason: str

    _text = "malformed message on {subject}: {reason}"


class PubAckTimeoutError(StreamingError, TimeoutError):
    """No acknowledgement of the message `guid` arrived within `timeout` seconds. The server may
    have stored the message."""

    channel: str
    guid: str
    timeout: float

    _text = "no acknowledgement of message {guid} on {channel} within {timeout:g} s"


class ConnectionLostError(StreamingError, ConnectionError):
    """The connection to the streaming server is lost for good; `reason` says why. Connect again.

    `unacknowledged` has the guids of the messages that `publish_async` sent and the server did not
    acknowledge. The server may have stored them.
    """

    reason: str
    unacknowledged: tuple[str, ...] = ()

    def __str__(self) -> str:
        count = len(self.unacknowledged)
        left = f"; {count} messages not acknowledged" if count else ""
        return f"connection to the streaming server lost: {self.reason}{left}"


class ManualAckError(StreamingError, RuntimeError):
    """`ack` was called on a message of a subscription that acknowledges automatically: subscribe
    with `manual_acks`."""

    channel: str

    _text = "cannot manually ack: the subscription to {channel} acknowledges by itself"


class UnsupportedError(StreamingError):
    """The streaming server is too old for this `operation`."""

    operation: str

    _text = "not supported by the server: {operation}"


_REFUSALS: dict[str, type[RefusedError]] = {
    "stan: clientID already registered": DuplicateClientError,
    "stan: duplicate durable registration": DuplicateDurableError,
    "stan: unknown clientID": UnknownClientError,
    "client has been replaced or is no longer registered": UnknownClientError,
}


def refused(operation: str, text: str) -> RefusedError:
    """Returns the error for the server's `text`."""
    return _REFUSALS.get(text, RefusedError)(operation, text)


def read(cls: type[_M], subject: str, payload: bytes) -> _M:
    """Returns the protocol message in `payload`, which arrived on `subject`. Raises
    ResponseError."""
    try:
        return cls.parse(payload)
    except ProtocolError as error:
        raise ResponseError(subject, str(error)) from error
