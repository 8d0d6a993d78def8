"""The exceptions of reading messages from consumers, and of acknowledging them."""

from __future__ import annotations

from ..errors import Error
from .errors import JetStreamError

__all__ = [
    "AckWaitExpiredError",
    "CantAckIfConsumerAckNoneError",
    "ConcurrentReadError",
    "ConsumerDeletedError",
    "ConsumerLeadershipChangedError",
    "ConsumerNotReachableError",
    "ConsumingError",
    "MessagesClosedError",
    "MsgAlreadyAckdError",
    "NoHeartbeatError",
    "NotJSMessageError",
    "NotPullConsumerError",
    "NotPushConsumerError",
    "PinIdMismatchError",
    "PullRefusedError",
    "SequenceGapError",
    "ServerShutdownError",
    "StreamReplacedError",
]


class NotJSMessageError(JetStreamError, ValueError):
    """The reply subject of the message is not an acknowledgement subject: no consumer has delivered
    the message."""

    reply: str

    def __str__(self) -> str:
        return f"not a JetStream message: reply subject {self.reply[:200]!r}"


class MsgAlreadyAckdError(JetStreamError):
    """The message is already acknowledged; `reply` is its acknowledgement subject."""

    reply: str

    def __str__(self) -> str:
        return f"message was already acknowledged: {self.reply}"


class CantAckIfConsumerAckNoneError(JetStreamError):
    """The message cannot be acknowledged: its consumer has ack policy `none`, as ordered consumers
    have."""

    subject: str

    def __str__(self) -> str:
        return (
            f"cannot acknowledge a message of a consumer without acknowledgements: {self.subject}"
        )


class ConsumingError(JetStreamError):
    """The base of the errors of reading from `consumer` of `stream`."""

    stream: str
    consumer: str

    _problem = "cannot be read"

    def __str__(self) -> str:
        name = f"consumer {self.consumer} of stream" if self.consumer else "reader of stream"
        return f"{name} {self.stream} {self._problem}"


class MessagesClosedError(ConsumingError):
    """The reader was stopped, or drained and nothing is left."""

    _problem = "was stopped"


class ConcurrentReadError(ConsumingError):
    """A second thread called a reader that keeps messages in order, while another one waits."""

    _problem = "keeps the order of messages for one thread at a time, and another one waits"


class ConsumerDeletedError(ConsumingError):
    """The consumer, or its stream, was deleted, or never existed."""

    _problem = "does not exist, or was deleted"


class ConsumerLeadershipChangedError(ConsumingError):
    """The consumer has a new leader; requests to the old one are void."""

    _problem = "has a new leader"


class ConsumerNotReachableError(ConsumingError):
    """No server answers for the consumer: it has no leader at the moment, or does not exist."""

    _problem = "is not reachable"


class ServerShutdownError(ConsumingError):
    """The server that led the consumer is shutting down; its requests are void."""

    _problem = "lost its leader, a server that shuts down"


class NotPullConsumerError(ConsumingError):
    """The consumer pushes its messages to a deliver subject: it takes no pull requests."""

    _problem = "is a push consumer, and cannot be pulled from"


class NotPushConsumerError(ConsumingError):
    """The consumer has no deliver subject: messages must be pulled."""

    _problem = "is a pull consumer, and pushes nothing"


class PinIdMismatchError(ConsumingError):
    """The server has unpinned this client from the priority group: another client may now get its
    messages."""

    _problem = "has unpinned this client"


class NoHeartbeatError(ConsumingError):
    """Nothing arrived from the consumer for `seconds`, not even the requested heartbeats."""

    seconds: float

    def __str__(self) -> str:
        return (
            f"consumer {self.consumer} of stream {self.stream}: no heartbeat for {self.seconds:g} s"
        )


class AckWaitExpiredError(ConsumingError):
    """Messages have waited in the reader until their `ack_wait` was over, at least `seconds`. They are not
    handed out, because the server delivers them again; `expired` counts all of them so far."""

    seconds: float
    expired: int

    def __str__(self) -> str:
        return (
            f"consumer {self.consumer} of stream {self.stream}: {self.expired} messages have waited here for "
            f"longer than their ack_wait of {self.seconds:g} s; ask for fewer with max_msgs"
        )


class SequenceGapError(ConsumingError):
    """Messages were lost on the way: the consumer's sequence is `found` instead of `expected`."""

    expected: int
    found: int

    def __str__(self) -> str:
        return (
            f"consumer {self.consumer} of stream {self.stream} is at sequence {self.found} "
            f"where {self.expected} was expected"
        )


class PullRefusedError(ConsumingError):
    """The consumer refused a request for messages; `status` and `text` are from the server's
    response."""

    status: int
    text: str

    def __str__(self) -> str:
        return (
            f"consumer {self.consumer} of stream {self.stream} refused a pull request: "
            f"{self.status} {self.text}"
        )


class StreamReplacedError(ConsumingError):
    """The stream is not the one that the ordered reader has read so far. Either it was deleted and
    created again, and is read from its beginning; or it has lost its last messages, and reading
    continues after those that remain."""

    _problem = "is not what it was: it was created again, or has lost its last messages"


# Tracebacks and pickles name the package from which users import these.
for _found in list(globals().values()):
    if isinstance(_found, type) and issubclass(_found, Error) and _found.__module__ == __name__:
        _found.__module__ = "natsync.jetstream"
