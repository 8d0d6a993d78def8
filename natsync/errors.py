"""The exceptions that natsync raises; all are subclasses of `natsync.Error`.

The facts of an error are its attributes and constructor arguments, and its text is one sentence made from
them. Causes are chained, and every error can be pickled. No text contains a secret or a payload. The names
follow the `Err...` list of nats.go; builtin parents (`TimeoutError`, `ConnectionError`, `ValueError`) let
callers catch errors by kind.
"""

from __future__ import annotations

from ._facts import Facts, fresh
from .protocol.errors import Error, ProtocolError

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
    "Facts",
    "FlushTimeoutError",
    "ForkedError",
    "CallbacksSkippedError",
    "HandlerError",
    "HeadersNotSupportedError",
    "InvalidResponseError",
    "MaxControlLineError",
    "MaxMessagesError",
    "MaxPayloadError",
    "MsgNoReplyError",
    "MsgNotBoundError",
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
    "SubscriptionFullError",
    "SyncSubRequiredError",
    "fresh",
]

STEPS = {
    "auth": "asking for credentials",
    "dns": "looking up the name",
    "tcp": "opening the TCP connection",
    "proxy": "opening a tunnel through the proxy",
    "tls": "the TLS handshake",
    "websocket": "opening the WebSocket",
    "info": "waiting for INFO",
    "connect": "waiting for the answer to CONNECT",
}


class OptionError(Facts, ValueError):
    """An option, or the URL of a server, is invalid. `reason` never shows a password or token."""

    option: str
    reason: str

    _text = "option {option}: {reason}"


class CredentialsError(Facts):
    """Credentials could not be obtained at connect time, from a file or from a callable of the program."""

    option: str
    reason: str

    _text = "no credentials from option {option}: {reason}"


class ConnectError(Facts, ConnectionError):
    """Connecting to `server` (host:port) failed in the step `auth`, `dns`, `tcp`, `proxy`, `tls`,
    `websocket`, `info` or `connect`."""

    server: str
    step: str
    reason: str

    def __str__(self) -> str:
        return f"no connection to {self.server}: {STEPS[self.step]}: {self.reason}"


class ConnectTimeoutError(ConnectError, TimeoutError):
    """A step of connecting did not end in time."""


class SecureConnWantedError(Facts, ConnectionError):
    """The client demands TLS, and the server does not offer it."""

    server: str

    _text = "secure connection not available: {server} has no TLS"


class NoServersError(Facts, ConnectionError):
    """Connecting failed with each of several servers; `errors` has one error for each of them."""

    errors: tuple[Error, ...]

    def __str__(self) -> str:
        return "no servers available for connection: " + "; ".join(map(str, self.errors))


class ServerError(Facts):
    """The server sent -ERR with this `text`."""

    text: str

    _text = "the server reported: {text}"


class AuthorizationError(ServerError):
    """The `server` (host:port) refused the credentials, or they have expired or were revoked."""

    server: str = ""

    def __str__(self) -> str:
        who = f"the server {self.server}" if self.server else "the server"
        return f"{who} reported: {self.text}"


class PermissionsViolationError(ServerError):
    """The permissions of this client do not allow the `operation`: `publish` or `subscription`."""

    operation: str
    subject: str
    queue: str = ""


class StaleConnectionError(Facts, ConnectionError):
    """The server stopped answering PINGs, or says that the client did."""

    text: str = "stale connection"

    def __str__(self) -> str:
        return self.text


class ConnectionClosedError(Facts, ConnectionError):
    """The connection is closed for good. `reason` says why; if this program closed it, `closer` names the
    call and its thread instead: `close() on thread MainThread`."""

    reason: str = ""
    closer: str = ""

    def __str__(self) -> str:
        if self.closer:
            return f"connection closed by {self.closer}"
        return f"connection closed: {self.reason}" if self.reason else "connection closed"


class ConnectionReconnectingError(Facts, ConnectionError):
    """There is no connection at the moment. `reason` says why it was lost, or why the last attempt to
    connect again failed."""

    reason: str = ""

    def __str__(self) -> str:
        return (
            f"connection reconnecting: {self.reason}" if self.reason else "connection reconnecting"
        )


class ReentrantCallError(Facts, RuntimeError):
    """A signal handler or finalizer made a call that waits, but it had interrupted the same client on the
    same thread while it was reading or writing, so the wait could never end; or it had interrupted a late
    import of natsync and needs a late import itself. Call again later, or on another thread."""

    _text = (
        "called from a signal handler or finalizer while the same thread reads, writes or imports"
    )


class ForkedError(Facts):
    """The subscription or client belongs to the parent process, from before the fork."""

    _text = "belongs to the parent process, from before the fork: connect in the child"


class ConnectionDrainingError(Facts):
    """The connection is draining: outside handlers, it accepts no new subscriptions."""

    _text = "connection draining"


class DrainTimeoutError(Facts, TimeoutError):
    """Draining did not end within `timeout` seconds; `left` counts unhandled messages by subject."""

    timeout: float
    left: dict[str, int]

    def __str__(self) -> str:
        total = sum(self.left.values())
        return f"draining timed out after {self.timeout:g} s with {total} messages not handled"


class _Timeout(Facts, TimeoutError):
    """Nothing arrived within `timeout` seconds."""

    subject: str
    timeout: float


class RequestTimeoutError(_Timeout):
    """No reply to a request on `subject` arrived in time. If there is no connection, `outage` says why."""

    outage: str = ""

    def __str__(self) -> str:
        outage = f"; there is no connection: {self.outage}" if self.outage else ""
        return f"no reply on {self.subject} within {self.timeout:g} s{outage}"


class NextMsgTimeoutError(_Timeout):
    """No message for the subscription to `subject` arrived in time."""

    _text = "no message on {subject} within {timeout:g} s"


class FlushTimeoutError(Facts, TimeoutError):
    """The server did not confirm in time that it has processed everything; it may still have done so."""

    timeout: float

    _text = "flush not confirmed by the server within {timeout:g} s"


class OutboundBufferLimitError(Facts):
    """The write buffer of `limit` bytes stayed full for `timeout` seconds, since the server reads too
    slowly. If `timeout` is 0, there is no connection, and the buffer of `limit` bytes for messages published
    meanwhile is full; `outage` says why there is none."""

    limit: int
    timeout: float = 0.0
    outage: str = ""

    def __str__(self) -> str:
        if not self.timeout:
            outage = f": {self.outage}" if self.outage else ""
            return f"outbound buffer of {self.limit} bytes is full while reconnecting{outage}"
        return f"outbound buffer of {self.limit} bytes still full after {self.timeout:g} s"


class NoRespondersError(Facts):
    """Nobody listens on the subject of a request."""

    subject: str

    _text = "no responders on {subject}"


class InvalidResponseError(Facts):
    """The response to a request on `subject` is not of the kind that it asked for, as where another program
    listens on a subject of JetStream or of services; `reason` says why. `others` are the valid responses to
    the same request.
    """

    subject: str
    reason: str
    others: tuple[object, ...] = ()

    _text = "invalid response on {subject}: {reason}"


class MaxPayloadError(Facts, ValueError):
    """Headers and payload together have more bytes than the server's `limit`; nothing was sent."""

    size: int
    limit: int

    _text = "message of {size} bytes is over the server's max_payload of {limit}"


class MaxControlLineError(Facts, ValueError):
    """Subject, reply and queue take `size` bytes of a control line, for which a server ends the
    connection. `limit` is 0 if the server refused the line, since it does not tell its limit."""

    size: int
    limit: int

    def __str__(self) -> str:
        limit = f"limit of {self.limit}" if self.limit else "server's limit"
        return (
            f"subject, reply and queue of {self.size} bytes are over the {limit} for a control line"
        )


class HeadersNotSupportedError(Facts):
    """The message has headers, and the server does not support them: it is older than 2.2, or headers are
    disabled in its configuration."""

    _text = "headers not supported by this server"


class MsgNoReplyError(Facts):
    """`respond` was called on a message without a reply subject."""

    subject: str

    _text = "message on {subject} does not have a reply subject"


class MsgNotBoundError(Facts):
    """`respond` was called on a message that belongs to no connection: the program made or unpickled it."""

    subject: str

    _text = "message on {subject} belongs to no connection; publish to its reply subject instead"


class BadSubscriptionError(Facts):
    """The subscription has ended, since the program unsubscribed it."""

    subject: str

    _text = "subscription to {subject} has ended"


class MaxMessagesError(BadSubscriptionError):
    """The subscription has ended, since it has received the `max_msgs` messages that it was limited to."""

    _text = "subscription to {subject} has had its last message"


class SyncSubRequiredError(Facts, RuntimeError):
    """`next_msg` or iteration was called on a subscription that has a handler."""

    subject: str

    _text = "subscription to {subject} has a handler, which takes its messages"


class SlowConsumerError(Facts):
    """A subscription has dropped messages, since a pending limit was reached; `dropped` counts them."""

    subject: str
    dropped: int

    _text = "slow consumer on {subject}: {dropped} messages dropped"


class SubscriptionFullError(Facts):
    """The subscription to `subject` is full and has `overflow="block"`, so nothing is read from the server
    until messages are taken; but the thread that takes them waits for a reply or an answer of the server.
    Take messages first, or use another client."""

    subject: str

    _text = (
        "nothing is read until this thread takes messages: the subscription to {subject} is full"
    )


class HandlerError(Facts):
    """A handler raised an exception, which is the cause of this error. The connection goes on.

    `failures` counts the failures that this error stands for: 1, or more if the handler failed faster than
    its failures could be reported.
    """

    subject: str
    failures: int = 1

    def __str__(self) -> str:
        raised = f": {type(self.__cause__).__name__}" if self.__cause__ else ""
        more = f" (and {self.failures - 1} times before)" if self.failures > 1 else ""
        return f"handler of {self.subject} failed{raised}{more}"


class CallbacksSkippedError(Facts):
    """So many errors, log lines and events of the connection were not passed to callbacks and the log, since
    a thousand of them were waiting: a callback or a log handler is slow, or does not return."""

    skipped: int

    def __str__(self) -> str:
        return f"{self.skipped} errors, log lines and events were skipped: callbacks are too slow"


for _root in (Error, ProtocolError):  # as `Facts` does for the others
    _root.__module__ = "natsync"
