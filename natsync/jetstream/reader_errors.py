"""The exceptions of reading messages from consumers, and of acknowledging them."""

from __future__ import annotations

from ..errors import Error
from .errors import JetStreamError

__all__ = [
    "AckWaitExpiredError",
    "CantAckIfConsumerAckNoneError",
    "ConcurrentReadError",
    "ConsumerDeletedError",
    "ConsumerHasActiveSubscriptionError",
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

    _text = "message was already acknowledged: {reply}"


class CantAckIfConsumerAckNoneError(JetStreamError):
    """The message cannot be acknowledged: its consumer has ack policy `none`, as ordered consumers
    have."""

    subject: str

    _text = "cannot acknowledge a message of a consumer without acknowledgements: {subject}"


class ConsumingError(JetStreamError):
    """The base of the errors of reading from `consumer` of `stream`."""

    stream: str
    consumer: str

    _text = "{_reader} cannot be read"

    @property
    def _reader(self) -> str:
        name = f"consumer {self.consumer} of stream" if self.consumer else "reader of stream"
        return f"{name} {self.stream}"


class MessagesClosedError(ConsumingError):
    """The reader was stopped, or drained and nothing is left."""

    _text = "{_reader} was stopped"


class ConcurrentReadError(ConsumingError):
    """A second thread called a reader that keeps messages in order, while another one waits."""

    _text = "{_reader} keeps the order of messages for one thread at a time, and another one waits"


class ConsumerDeletedError(ConsumingError):
    """The consumer, or its stream, was deleted, or never existed."""

    _text = "{_reader} does not exist, or was deleted"


class ConsumerLeadershipChangedError(ConsumingError):
    """The consumer has a new leader; requests to the old one are void."""

    _text = "{_reader} has a new leader"


class ConsumerNotReachableError(ConsumingError):
    """No server answers for the consumer: it has no leader at the moment, or does not exist."""

    _text = "{_reader} is not reachable"


class ServerShutdownError(ConsumingError):
    """The server that led the consumer is shutting down; its requests are void."""

    _text = "{_reader} lost its leader, a server that shuts down"


class NotPullConsumerError(ConsumingError):
    """The consumer pushes its messages to a deliver subject: it takes no pull requests."""

    _text = "{_reader} is a push consumer, and cannot be pulled from"


class NotPushConsumerError(ConsumingError):
    """The consumer has no deliver subject: messages must be pulled."""

    _text = "{_reader} is a pull consumer, and pushes nothing"


class ConsumerHasActiveSubscriptionError(ConsumingError):
    """The push consumer has a reader, here or elsewhere, and no deliver group: a second one would get every
    message, too."""

    _text = "{_reader} has a reader already, and no deliver group to share the messages"


class PinIdMismatchError(ConsumingError):
    """The server has unpinned this client from the priority group: another client may now get its
    messages."""

    _text = "{_reader} has unpinned this client"


class NoHeartbeatError(ConsumingError):
    """Nothing arrived from the consumer for `seconds`, not even the requested heartbeats."""

    seconds: float

    _text = "consumer {consumer} of stream {stream}: no heartbeat for {seconds:g} s"


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

    _text = "consumer {consumer} of stream {stream} is at sequence {found} where {expected} was expected"


class PullRefusedError(ConsumingError):
    """The consumer refused a request for messages; `status` and `text` are from the server's
    response."""

    status: int
    text: str

    _text = "consumer {consumer} of stream {stream} refused a pull request: {status} {text}"


class StreamReplacedError(ConsumingError):
    """The stream is not the one that the ordered reader has read so far. Either it was deleted and
    created again, and is read from its beginning; or it has lost its last messages, and reading
    continues after those that remain."""

    _text = "{_reader} is not what it was: it was created again, or has lost its last messages"


# Tracebacks and pickles name the package from which users import these.
for _found in list(globals().values()):
    if isinstance(_found, type) and issubclass(_found, Error) and _found.__module__ == __name__:
        _found.__module__ = "natsync.jetstream"
