"""Every exception a caller of natsync can meet; all are `natsync.Error`.

Facts are attributes and constructor arguments, the text is one sentence made from them, the cause is
chained, and each can be pickled. No text holds a secret or a payload. Names follow the `Err...` list of
nats.go; builtin parents (`TimeoutError`, `ConnectionError`, `ValueError`) are there to be caught too.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, ClassVar, TypeVar

from .protocol.errors import Error, ProtocolError

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        """For type checkers: the arguments are the annotated fields."""
        return lambda cls: cls


__all__ = [
    "AuthorizationError",
    "BadSubscriptionError",
    "ConnectError",
    "ConnectTimeoutError",
    "ConnectionClosedError",
    "CredentialsError",
    "ConnectionDrainingError",
    "ConnectionReconnectingError",
    "DrainTimeoutError",
    "Error",
    "FlushTimeoutError",
    "ForkedError",
    "HandlerError",
    "HeadersNotSupportedError",
    "MaxControlLineError",
    "MaxMessagesError",
    "MaxPayloadError",
    "MsgNoReplyError",
    "NextMsgTimeoutError",
    "NoRespondersError",
    "NoServersError",
    "OptionError",
    "OutboundBufferLimitError",
    "PermissionsViolationError",
    "ProtocolError",
    "ReentrantCallError",
    "RequestTimeoutError",
    "SecureConnWantedError",
    "ServerError",
    "SlowConsumerError",
    "StaleConnectionError",
    "SyncSubRequiredError",
    "fresh",
]

STEPS = {
    "auth": "asking for credentials",
    "dns": "looking up the name",
    "tcp": "opening the TCP connection",
    "tls": "the TLS handshake",
    "info": "waiting for INFO",
    "connect": "waiting for the answer to CONNECT",
}

_E = TypeVar("_E", bound=BaseException)


def fresh(error: _E) -> _E:
    """A copy of `error` with its cause, to be raised again: one traceback for each thread that raises."""
    again = copy.copy(error)
    again.__cause__ = error.__cause__
    return again


@dataclass_transform(eq_default=False)
class Facts(Error):
    """The base of errors made of facts: the annotated fields are the arguments and attributes, and survive
    pickling. Plain classes on purpose: as dataclasses, thirty errors take a tenth of the time of every
    import."""

    _names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._names += tuple(cls.__annotations__)
        setattr(cls, "__match_args__", cls._names)

    def __init__(self, *values: object, **named: object) -> None:
        names, cls = self._names, type(self)
        given = {**dict(zip(names, values)), **named}
        defaults = {name: getattr(cls, name) for name in names if hasattr(cls, name)}
        facts = {**defaults, **given}
        if len(given) < len(values) + len(named) or facts.keys() != {*names}:
            raise TypeError(f"{cls.__name__} takes {', '.join(names) or 'no arguments'}")
        self.__dict__.update(facts)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), tuple(getattr(self, name) for name in self._names)

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names)
        return f"{type(self).__name__}({told})"


class OptionError(Facts, ValueError):
    """An option, or a server's URL, that makes no sense. `reason` never shows a password or token."""

    option: str
    reason: str

    def __str__(self) -> str:
        return f"option {self.option}: {self.reason}"


class CredentialsError(Facts):
    """Credentials that were to be had at connect time and were not: a file, a callable, a signature."""

    option: str
    reason: str

    def __str__(self) -> str:
        return f"no credentials from option {self.option}: {self.reason}"


class ConnectError(Facts, ConnectionError):
    """No connection to `server` (host:port), and why. `step` is `auth`, `dns`, `tcp`, `tls`, `info` or
    `connect`."""

    server: str
    step: str
    reason: str

    def __str__(self) -> str:
        return f"no connection to {self.server}: {STEPS[self.step]}: {self.reason}"


class ConnectTimeoutError(ConnectError, TimeoutError):
    """A step of connecting that did not end in time."""


class SecureConnWantedError(Facts, ConnectionError):
    """TLS was asked for, and the server does not have it."""

    server: str

    def __str__(self) -> str:
        return f"secure connection not available: {self.server} has no TLS"


class NoServersError(Facts, ConnectionError):
    """None of several servers could be connected to; `errors` has one for each that was tried."""

    errors: tuple[Error, ...]

    def __str__(self) -> str:
        return "no servers available for connection: " + "; ".join(map(str, self.errors))


class ServerError(Facts):
    """The server answered -ERR; `text` is what it said."""

    text: str

    def __str__(self) -> str:
        return f"the server reported: {self.text}"


class AuthorizationError(ServerError):
    """The server refused the credentials, or took them back: expired, revoked."""


class PermissionsViolationError(ServerError):
    """The server refused a publish or a subscription; `operation` is `publish` or `subscription`."""

    operation: str
    subject: str
    queue: str = ""


class StaleConnectionError(Facts, ConnectionError):
    """One side stopped answering the other's PINGs."""

    text: str = "stale connection"

    def __str__(self) -> str:
        return self.text


class ConnectionClosedError(Facts, ConnectionError):
    """The connection is closed. `reason` is empty after `close()`, else it says why; so does the cause."""

    reason: str = ""

    def __str__(self) -> str:
        return f"connection closed: {self.reason}" if self.reason else "connection closed"


class ConnectionReconnectingError(Facts, ConnectionError):
    """There is no connection at the moment; `reason` says why it was lost, or cannot be made again."""

    reason: str = ""

    def __str__(self) -> str:
        return (
            f"connection reconnecting: {self.reason}" if self.reason else "connection reconnecting"
        )


class ReentrantCallError(Facts, RuntimeError):
    """A call that waits, made by a signal handler or finalizer that interrupted the same client on the same
    thread while it was reading or writing. The wait could never end. Call again later, or on another thread.
    """

    def __str__(self) -> str:
        return "called while the same thread is in the middle of moving this connection's bytes"


class ForkedError(Facts):
    """Something that belongs to the process that forked this one."""

    def __str__(self) -> str:
        return "made before a fork, it belongs to the parent process: connect after the fork"


class ConnectionDrainingError(Facts):
    """The connection is being drained: nothing new is accepted."""

    def __str__(self) -> str:
        return "connection draining"


class DrainTimeoutError(Facts, TimeoutError):
    """Draining did not end in `timeout` seconds; `left` says what was not done, by subject."""

    timeout: float
    left: dict[str, int]

    def __str__(self) -> str:
        total = sum(self.left.values())
        return f"draining timed out after {self.timeout:g} s with {total} messages not handled"


class _Timeout(Facts, TimeoutError):
    """What the timeouts on one subject share; `timeout` is in seconds."""

    subject: str
    timeout: float


class RequestTimeoutError(_Timeout):
    """No reply on `subject` came in time. If there is no connection at the moment, `outage` says why."""

    outage: str = ""

    def __str__(self) -> str:
        outage = f"; there is no connection: {self.outage}" if self.outage else ""
        return f"no reply on {self.subject} within {self.timeout:g} s{outage}"


class NextMsgTimeoutError(_Timeout):
    """No message for the subscription to `subject` came in time."""

    def __str__(self) -> str:
        return f"no message on {self.subject} within {self.timeout:g} s"


class FlushTimeoutError(Facts, TimeoutError):
    """The server did not confirm in time that it has everything; it may have it."""

    timeout: float

    def __str__(self) -> str:
        return f"flush not confirmed by the server within {self.timeout:g} s"


class OutboundBufferLimitError(Facts):
    """The server takes no more data: the write buffer of `limit` bytes stayed full for `timeout` seconds;
    or, with a `timeout` of 0, there is no connection, for the reason `outage`, and the buffer for that time
    is full."""

    limit: int
    timeout: float = 0.0
    outage: str = ""

    def __str__(self) -> str:
        if not self.timeout:
            outage = f": {self.outage}" if self.outage else ""
            return f"outbound buffer of {self.limit} bytes is full while reconnecting{outage}"
        return f"outbound buffer of {self.limit} bytes still full after {self.timeout:g} s"


class NoRespondersError(Facts):
    """A request on a subject that nobody listens to."""

    subject: str

    def __str__(self) -> str:
        return f"no responders on {self.subject}"


class MaxPayloadError(Facts, ValueError):
    """Headers and payload of `size` bytes together are over the server's `limit`; nothing was sent."""

    size: int
    limit: int

    def __str__(self) -> str:
        return f"message of {self.size} bytes is over the server's max_payload of {self.limit}"


class MaxControlLineError(Facts, ValueError):
    """Subject, reply and queue make a protocol line of `size` bytes: too long for the server, which would
    end the connection. `limit` is 0 where it is the server's own, which it does not tell."""

    size: int
    limit: int

    def __str__(self) -> str:
        limit = f"limit of {self.limit}" if self.limit else "server's limit"
        return (
            f"subject, reply and queue of {self.size} bytes are over the {limit} for a control line"
        )


class HeadersNotSupportedError(Facts):
    """A message with headers, to a server older than 2.2 or configured without them."""

    def __str__(self) -> str:
        return "headers not supported by this server"


class MsgNoReplyError(Facts):
    """`respond` on a message that asks for no reply."""

    subject: str

    def __str__(self) -> str:
        return f"message on {self.subject} does not have a reply subject"


class BadSubscriptionError(Facts):
    """The subscription has ended: it was unsubscribed."""

    subject: str

    def __str__(self) -> str:
        return f"subscription to {self.subject} has ended"


class MaxMessagesError(BadSubscriptionError):
    """The subscription has ended: it had all the messages it was limited to."""

    def __str__(self) -> str:
        return f"subscription to {self.subject} has had its last message"


class SyncSubRequiredError(Facts, RuntimeError):
    """`next_msg` or iteration on a subscription whose messages go to a handler."""

    subject: str

    def __str__(self) -> str:
        return f"subscription to {self.subject} has a handler, which takes its messages"


class SlowConsumerError(Facts):
    """A subscription's pending limits were reached; `dropped` messages are lost so far, more may be."""

    subject: str
    dropped: int

    def __str__(self) -> str:
        return f"slow consumer on {self.subject}: {self.dropped} messages dropped"


class HandlerError(Facts):
    """A handler or callback raised; the cause is what it raised. The connection goes on."""

    subject: str

    def __str__(self) -> str:
        raised = f": {type(self.__cause__).__name__}" if self.__cause__ else ""
        return f"handler of {self.subject} failed{raised}"


# Tracebacks and pickles name the place where users import these from.
for _found in list(globals().values()):
    if isinstance(_found, type) and issubclass(_found, Error):
        _found.__module__ = "natsync"
