"""Pull requests, and the accounting of open ones: no I/O, no clock, no threads.

A pull consumer sends messages on request (ADR-13, ADR-37; nats-server `server/consumer.go`). The
response to a request is any number of messages, with status messages without payload in between or
at the end. `read_status` tells what a status means; `OpenPulls` counts what was requested and has
not arrived, and tells when to request more.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import TypedDict

from .._checks import check_count, check_duration, check_seconds, check_text, check_unsigned
from ..errors import Error, OptionError
from ..message import Delivered, Msg, to_text
from ..protocol import HMsg, ProtocolError
from .reader_errors import (
    ConsumerDeletedError,
    ConsumerLeadershipChangedError,
    ConsumerNotReachableError,
    NotPullConsumerError,
    PinIdMismatchError,
    PullRefusedError,
    ServerShutdownError,
)

__all__ = [
    "MANY",
    "GroupOptions",
    "Meaning",
    "OpenPulls",
    "Pin",
    "PullOptions",
    "PullPlan",
    "PullRequest",
    "PullStatus",
    "check_group_options",
    "may_be_status",
    "read_status",
]

MANY = 1_000_000  # messages to request if bytes are the limit (ADR-37)
_NS = 1_000_000_000
_PIN_ID = re.compile(rb"\nNats-Pin-Id: ([^\r\n]+)")


class Meaning(Enum):
    """What a status means for the pull requests on its inbox."""

    HEARTBEAT = "heartbeat"
    """No request ends."""
    EXPIRED = "expired"
    """No status: a message that is not handed out, because its `ack_wait` has passed."""
    END = "end"
    """One request ended normally: it expired, was filled, or there are no messages."""
    PIN_LOST = "pin lost"
    """One request ended: another client now has the pin of the priority group, or nobody has it
    yet."""
    TOO_LARGE = "too large"
    """One request ended: the next message does not fit into its `max_bytes`."""
    INTERRUPTED = "interrupted"
    """All requests ended, and a new one may work at once: the leader has changed, or its server
    shuts down."""
    AWAY = "away"
    """All requests ended: the connection is lost. RECONNECTED follows."""
    RECONNECTED = "reconnected"
    """There is a connection again. Failed requests on the previous connection say nothing about
    this one; the client itself pauses between connections that do not last."""
    UNREACHABLE = "unreachable"
    """The request reached no consumer: it is gone, or has no leader now. Another one may work in a
    while."""
    BUSY = "busy"
    """One request was refused because there are too many. Another one may work in a while."""
    FATAL = "fatal"
    """No request will ever work: the consumer was deleted, or does not take such requests, or the
    client may not send them."""


@dataclass(frozen=True, slots=True)
class PullStatus:
    """One status message. `error` is the problem that it reports, if any. `pending_msgs` and
    `pending_bytes` are what the request that ended had still to receive; None if the server does
    not say."""

    meaning: Meaning
    error: Error | None = None
    pending_msgs: int | None = None
    pending_bytes: int | None = None
    last_consumer_seq: int | None = None
    """The consumer sequence of the last delivery, as reported by a heartbeat."""
    size: int = 0
    """The size of the message that has expired, as the server counts it."""


def may_be_status(frame: Delivered) -> bool:
    """Returns whether `frame`, which has no payload, may be a status: it has headers, their first
    line holds more than NATS/1.0, and there is no reply subject, which every message of a stream
    has, also one that was published with a status. A quick test for messages of a `headers_only`
    consumer, which have no payload either."""
    return isinstance(frame, HMsg) and not frame.reply and frame.headers[8:10] != b"\r\n"


def read_status(msg: Msg, stream: str, consumer: str) -> PullStatus | None:
    """Returns the meaning of `msg`, for which `may_be_status` is true; None if it is a message of
    the stream."""
    try:
        status = msg.status
    except ProtocolError:  # reading the headers raises it again
        return None
    if not status:
        return None
    text = msg.description
    meaning, error = _meaning(status, text, stream, consumer)
    return PullStatus(
        meaning,
        error,
        _count(msg, "Nats-Pending-Messages"),
        _count(msg, "Nats-Pending-Bytes"),
        _count(msg, "Nats-Last-Consumer"),
    )


def _meaning(status: int, text: str, stream: str, consumer: str) -> tuple[Meaning, Error | None]:
    lower = text.lower()
    match status:
        case 100:
            return Meaning.HEARTBEAT, None
        case 404 | 408:
            return Meaning.END, None
        case 409 if "batch completed" in lower:
            return Meaning.END, None
        case 409 if "message size exceeds" in lower:
            return Meaning.TOO_LARGE, PullRefusedError(stream, consumer, status, text)
        case 409 if "consumer deleted" in lower:
            return Meaning.FATAL, ConsumerDeletedError(stream, consumer)
        case 409 if "push based" in lower:
            return Meaning.FATAL, NotPullConsumerError(stream, consumer)
        case 409 if "leadership change" in lower:
            return Meaning.INTERRUPTED, ConsumerLeadershipChangedError(stream, consumer)
        case 409 if "server shutdown" in lower:
            return Meaning.INTERRUPTED, ServerShutdownError(stream, consumer)
        case 409 if "exceeded maxwaiting" in lower:
            return Meaning.BUSY, PullRefusedError(stream, consumer, status, text)
        case 423:
            return Meaning.PIN_LOST, PinIdMismatchError(stream, consumer)
        case 503:
            return Meaning.UNREACHABLE, ConsumerNotReachableError(stream, consumer)
        case 400 | 412:
            return Meaning.FATAL, PullRefusedError(stream, consumer, status, text)
        case 409 if "exceeded max" in lower:
            # A limit in the consumer's configuration: the same request would be refused for
            # ever.
            return Meaning.FATAL, PullRefusedError(stream, consumer, status, text)
    # From a later server: reported, and tried again in a while.
    return Meaning.BUSY, PullRefusedError(stream, consumer, status, text)


def _count(msg: Msg, header: str) -> int | None:
    text = msg.headers.get(header)
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 20):
        return None
    return int(text)


@dataclass(frozen=True, slots=True)
class PullRequest:
    """The body of a request for messages. Times are in seconds; fields that are 0 or empty are left
    out."""

    batch: int = 1
    expires: float = 0.0
    heartbeat: float = 0.0
    max_bytes: int = 0
    no_wait: bool = False
    group: str = ""
    pin_id: str = ""
    min_pending: int = 0
    min_ack_pending: int = 0
    priority: int = 0

    def encode(self) -> bytes:
        """Returns the request as JSON for the server, with times in nanoseconds."""
        body: dict[str, object] = {"batch": self.batch}
        expires, beat = round(self.expires * _NS), round(self.heartbeat * _NS)
        if expires:
            body["expires"] = expires
            beat = min(beat, expires // 2)  # else the server refuses the request
        if beat:
            body["idle_heartbeat"] = beat
        if self.no_wait:
            body["no_wait"] = True
        for name, value in (
            ("max_bytes", self.max_bytes),
            ("group", self.group),
            ("id", self.pin_id),
            ("min_pending", self.min_pending),
            ("min_ack_pending", self.min_ack_pending),
            ("priority", self.priority),
        ):
            if value:
                body[name] = value
        return json.dumps(body, separators=(",", ":")).encode()


class Pin:
    """The pin id of a priority group: the server gives it to the client that gets the messages. All
    readers of one `Consumer` share it."""

    __slots__ = ("id",)

    def __init__(self) -> None:
        self.id = ""

    def learn(self, msg: Msg) -> None:
        """Keeps the id in the headers of a message, if there is one. The server adds it after the
        published headers, which may be invalid, or have an id that was copied."""
        found = _PIN_ID.findall(msg.header_block)
        self.id = to_text(found[-1]) if found else self.id


class GroupOptions(TypedDict, total=False):
    """How to take part in a priority group of the consumer (server 2.11; ADR-42)."""

    group: str
    """The group; unless given, the first one of the consumer, if it has any."""
    min_pending: int
    """Get messages only if at least this many wait in the stream (policy `overflow`)."""
    min_ack_pending: int
    """Or if at least this many deliveries are not acknowledged (policy `overflow`)."""
    priority: int
    """0 to 9: requests with a lower number are served first (policy `prioritized`, server 2.12)."""


def check_group_options(group: str, min_pending: int, min_ack_pending: int, priority: int) -> None:
    """Checks the values of `GroupOptions`."""
    check_text(group=group)
    check_count(priority=priority)
    check_unsigned(min_pending=min_pending, min_ack_pending=min_ack_pending)
    if not 0 <= priority <= 9:
        raise OptionError("priority", "must be between 0 and 9")


class PullOptions(GroupOptions, total=False):
    """How a reader keeps itself supplied with messages."""

    max_msgs: int
    """At most this many messages are requested and not yet taken (500)."""
    max_bytes: int
    """If not 0, the limit is this many bytes instead. With `max_msgs`, both are limits, and the next request
    is sent when the last one has ended: only then is it known what is left of both."""
    threshold: float
    """The next request is sent when only this fraction of the limit is left (0.5)."""
    expires: float
    """Seconds after which the server drops a request (30)."""
    heartbeat: float
    """Seconds between the server's signs of life while it has no messages; unless given, half of
    `expires`, but at most 30. After two of them the reader sends a new request."""
    stop_after: int
    """If not 0, the reader ends after this many messages, and never requests more."""
    keep_alive: bool
    """Whether the `ack_wait` of messages that wait to be taken is renewed, by progress
    acknowledgements from a thread of the reader (False)."""


@dataclass(frozen=True, slots=True)
class PullPlan:
    """`PullOptions` with their defaults, checked."""

    max_msgs: int = 500
    max_bytes: int = 0
    expires: float = 30.0
    heartbeat: float | None = None
    threshold: float = 0.5
    group: str = ""
    min_pending: int = 0
    min_ack_pending: int = 0
    priority: int = 0
    stop_after: int = 0
    keep_alive: bool = False
    most: int = MANY
    """The most messages of a request if bytes alone are the limit."""
    limits_both: bool = False
    """Whether `max_msgs` and `max_bytes` are limits."""
    least: float = 1.0
    """The shortest time of a request."""

    def __post_init__(self) -> None:
        check_group_options(self.group, self.min_pending, self.min_ack_pending, self.priority)
        check_count(max_msgs=self.max_msgs, max_bytes=self.max_bytes)
        check_unsigned(stop_after=self.stop_after)
        check_duration(expires=self.expires)
        check_seconds(threshold=self.threshold)
        check_seconds(heartbeat=0 if self.heartbeat is None else self.heartbeat)
        if self.max_msgs < 1:
            raise OptionError("max_msgs", "must be at least 1")
        if self.max_bytes < 0:
            raise OptionError("max_bytes", "must not be negative")
        if self.expires < self.least:
            seconds = "1 second" if self.least == 1 else f"{self.least:g} seconds"
            raise OptionError("expires", f"must be at least {seconds}")
        if not 0 <= self.threshold < 1:
            raise OptionError("threshold", "must be at least 0 and below 1")
        if self.heartbeat is not None and not 0.1 <= self.heartbeat <= self.expires / 2:
            raise OptionError("heartbeat", "must be between 0.1 seconds and half of expires")

    @property
    def beat(self) -> float:
        """The requested heartbeat interval in seconds."""
        return min(self.expires / 2, 30.0) if self.heartbeat is None else self.heartbeat

    def request(self, msgs: int, size: int, pin_id: str) -> PullRequest:
        """Returns a request for this many more messages, and bytes."""
        return PullRequest(
            msgs,
            self.expires,
            self.beat,
            size if self.max_bytes else 0,
            False,
            self.group,
            pin_id,
            self.min_pending,
            self.min_ack_pending,
            self.priority,
        )


class OpenPulls:
    """What was requested on one inbox and has not arrived yet."""

    __slots__ = ("plan", "msgs", "size", "left", "_is_plain", "_least_msgs", "_least_size")

    def __init__(self, plan: PullPlan) -> None:
        self.plan = plan
        self.msgs = 0
        self.size = 0
        self.left = plan.stop_after
        """The messages until the reader ends, if it does."""
        self._is_plain = not (plan.max_bytes or plan.stop_after)
        self._least_msgs = int(plan.max_msgs * plan.threshold)
        self._least_size = int(plan.max_bytes * plan.threshold)

    @property
    def is_low(self) -> bool:
        """Whether to request more."""
        plan = self.plan
        if plan.stop_after and self.left <= self.msgs:
            return False
        if plan.max_bytes and not plan.limits_both:
            return self.size <= self._least_size or self.msgs <= 0
        return self.msgs <= (0 if plan.limits_both else self._least_msgs)

    def ask(self, pin_id: str = "") -> PullRequest:
        """Returns a request that fills up to the limit, and counts it as open."""
        plan = self.plan
        size = plan.max_bytes - self.size
        only_bytes = plan.max_bytes and not plan.limits_both
        msgs = plan.most if only_bytes else plan.max_msgs - self.msgs
        if plan.stop_after:
            msgs = min(msgs, self.left - self.msgs)
        request = plan.request(msgs, size, pin_id)
        if plan.max_bytes:
            self.size += size
        self.msgs += request.batch
        return request

    def message(self, size: int) -> bool:
        """Counts a message that has arrived; `size` is its size as the server counts it. Returns
        whether to request more."""
        if self.size:
            self.size = max(0, self.size - size)
        msgs = self.msgs
        if msgs:
            self.msgs = msgs = msgs - 1
        if self._is_plain:
            return msgs <= self._least_msgs
        self.left -= 1
        if not msgs:
            self.size = 0  # a full batch ends without a status
        return self.is_low

    def status(self, status: PullStatus) -> None:
        """Counts a status that has arrived."""
        match status.meaning:
            case Meaning.HEARTBEAT:
                pass
            case Meaning.EXPIRED:
                self.message(status.size)
                self.left += 1
            case Meaning.INTERRUPTED | Meaning.AWAY | Meaning.RECONNECTED:
                self.forget()
            case Meaning.UNREACHABLE | Meaning.FATAL:
                self.forget()
            case _ if status.pending_msgs is None:
                # The server does not say what is left of the request: nothing is known to be open.
                self.forget()
            case _:
                self.msgs = max(0, self.msgs - status.pending_msgs)
                self.size = max(0, self.size - (status.pending_bytes or 0))

    def forget(self) -> None:
        """Forgets all open requests: the connection was lost, or the server was silent for too
        long."""
        self.msgs = self.size = 0
