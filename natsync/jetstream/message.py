"""Messages of a stream as a consumer delivers them: `JetStreamMsg`, its acknowledgements and its
`MsgMetadata`.

The server puts where a message comes from, and where its acknowledgement goes to, into the reply
subject. That has nine tokens (ADR-15, nats.go `parser.GetMetadataFields`):

    $JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time in ns>.<pending>

or eleven and more, with `<domain>.<account hash>` after `$JS.ACK`; `_` stands for no domain.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import NamedTuple, NoReturn

from .._checks import check_duration, check_text
from ..core import Core
from ..message import Delivered, Msg, Respond, to_wire
from ..options import DEFAULT, Default
from ..protocol import HMsg
from .reader_errors import CantAckIfConsumerAckNoneError, MsgAlreadyAckdError, NotJSMessageError

__all__ = [
    "AckNoneMsg",
    "JetStreamMsg",
    "MsgMetadata",
    "NO_ORIGIN",
    "is_delivery",
    "origin_of",
    "parse_metadata",
    "parse_sequences",
]

_PREFIX = "$JS.ACK."
_WIRE_PREFIX = _PREFIX.encode()
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_DIGITS = 20  # of the largest uint64


_PLAIN = re.compile(
    r"\$JS\.ACK\.([^.]+)\.([^.]+)"
    r"\.([0-9]{1,20})\.([0-9]{1,20})\.([0-9]{1,20})\.([0-9]{1,18}|[0-8][0-9]{18})\.([0-9]{1,20})"
)
"""The reply subject of nearly every message, with a time that a datetime can hold."""


class MsgMetadata(NamedTuple):
    """The origin of a delivered message.

    `stream_seq` is its place in the stream and stays; `consumer_seq` counts deliveries of the
    consumer and is new with each; `num_delivered` is 1 at the first delivery of this message;
    `num_pending` messages were to come after it when it was sent. `timestamp_ns` is when the stream
    stored it, in nanoseconds since 1970. `domain` is empty where the server did not name one.
    """

    stream: str
    consumer: str
    num_delivered: int
    stream_seq: int
    consumer_seq: int
    timestamp_ns: int
    num_pending: int
    domain: str = ""

    @property
    def timestamp(self) -> datetime:
        """`timestamp_ns` as a UTC time, cut to microseconds."""
        return _EPOCH + timedelta(microseconds=self.timestamp_ns // 1000)


def parse_metadata(reply: str) -> MsgMetadata:
    """Returns the metadata in the reply subject of a delivered message. Raises NotJSMessageError
    where there is none.

    Tokens before `$JS.ACK` are skipped: the account of the client may have imported the subject
    under a prefix.
    """
    plain = _PLAIN.fullmatch(reply)  # twice as fast as `_parse_other`
    if plain:
        stream, consumer, delivered, stream_seq, consumer_seq, stored, pending = plain.groups()
        return MsgMetadata(
            stream,
            consumer,
            int(delivered),
            int(stream_seq),
            int(consumer_seq),
            int(stored),
            int(pending),
        )
    return _parse_other(reply)


def _parse_other(reply: str) -> MsgMetadata:
    start = reply.find(_PREFIX)
    if start > 0 and reply[start - 1] != ".":
        start = -1
    tokens = reply[start:].split(".") if start >= 0 else []
    domain = ""
    if len(tokens) >= 11:
        domain = "" if tokens[2] == "_" else tokens[2]
        del tokens[2:4]
    elif len(tokens) != 9:
        raise NotJSMessageError(reply)
    numbers = tokens[4:9]
    for token in numbers:
        if not (token.isascii() and token.isdigit() and len(token) <= _DIGITS):
            raise NotJSMessageError(reply)
    delivered, stream_seq, consumer_seq, stored, pending = map(int, numbers)
    # No server writes a time that datetime cannot hold.
    if not (tokens[2] and tokens[3]) or stored >= 1 << 63:
        raise NotJSMessageError(reply)
    return MsgMetadata(
        tokens[2],
        tokens[3],
        delivered,
        stream_seq,
        consumer_seq,
        stored,
        pending,
        domain,
    )


def parse_sequences(reply: str) -> tuple[int, int]:
    """Returns the stream sequence and the consumer sequence, faster than `parse_metadata`. Raises
    NotJSMessageError."""
    tokens = reply.split(".")
    if len(tokens) == 9 and tokens[0] == "$JS" and tokens[1] == "ACK":
        stream_seq, consumer_seq = tokens[5], tokens[6]
        if stream_seq.isdigit() and consumer_seq.isdigit() and len(reply) < 1024:
            try:
                return int(stream_seq), int(consumer_seq)
            except ValueError:  # a Unicode digit that is not decimal, such as a superscript
                raise NotJSMessageError(reply) from None
    found = parse_metadata(reply)
    return found.stream_seq, found.consumer_seq


def is_delivery(reply: bytes) -> bool:
    """Returns whether a reply subject is where acknowledgements go to, as far as a look at it tells."""
    return _WIRE_PREFIX in reply


NO_ORIGIN = b"\0"
"""Equals no part of a subject."""


def origin_of(reply: str) -> bytes:
    """Returns the part of a reply subject before its last four tokens, which hold the sequences,
    the time and the number of pending messages; NO_ORIGIN if the subject has another form. All
    messages of a consumer with the same delivery count share this part."""
    if reply.startswith(_PREFIX) and reply.count(".") in (8, 10):
        return to_wire(reply).rsplit(b".", 4)[0]
    return NO_ORIGIN


class JetStreamMsg(Msg):
    """One delivered message of a stream: a `natsync.Msg` that can be acknowledged once.

    `ack`, `ack_sync`, `nak` and `term` settle the message. Settling it again raises
    MsgAlreadyAckdError, on any thread. If the acknowledgement cannot be sent or is not confirmed,
    the message stays unsettled, so that you can try again. All but `ack_sync` return after sending;
    only `ack_sync`, or `flush` of the client, shows that the server has received the
    acknowledgement.
    """

    __slots__ = ("_core", "_unsettled", "_metadata")

    def __init__(self, frame: Delivered, respond: Respond, core: Core) -> None:
        self._frame = frame
        self._respond = respond
        self._parsed = None
        self._core = core
        # Deleted when the message is settled: deletion is atomic, so no message needs a lock.
        self._unsettled = True

    @property
    def metadata(self) -> MsgMetadata:
        """The origin of the message. Raises NotJSMessageError if the reply subject does not tell
        it."""
        try:
            return self._metadata
        except AttributeError:  # not parsed yet
            self._metadata: MsgMetadata = parse_metadata(self.reply)
        return self._metadata

    @property
    def wire_size(self) -> int:
        """The size in bytes as the server counts it against `max_bytes`: subject, reply subject,
        headers and payload."""
        frame = self._frame
        headers = frame.header_bytes if isinstance(frame, HMsg) else 0
        return len(frame.subject) + len(frame.reply) + headers + frame.payload_bytes

    @property
    def settled(self) -> bool:
        """Whether it was acknowledged with `ack`, `ack_sync`, `nak` or `term`."""
        return not hasattr(self, "_unsettled")

    def ack(self) -> None:
        """Tells the server that the message is handled."""
        self._send(b"+ACK")

    def ack_sync(self, timeout: float | None | Default = DEFAULT) -> None:
        """Acknowledges as `ack` does, and returns when the server confirms it.

        Raises RequestTimeoutError after `timeout` seconds (by default, the connection's request
        timeout), and NoRespondersError if the consumer is gone. The server confirms every
        acknowledgement that it receives, even one that came too late to prevent another delivery.
        """
        self._settle()
        try:
            if timeout is DEFAULT:
                self._core.request(self.reply, b"+ACK")
            else:
                self._core.request(self.reply, b"+ACK", timeout=timeout)
        except BaseException:
            self._unsettled = True
            raise

    def nak(self, delay: float | None = None) -> None:
        """Asks for another delivery, at once or after `delay` seconds."""
        if delay is None:
            self._send(b"-NAK")
        else:
            check_duration(delay=delay)
            self._send(b'-NAK {"delay": %d}' % round(delay * 1e9))

    def term(self, reason: str = "") -> None:
        """Tells the server never to deliver the message again, because it cannot be handled.
        `reason` is part of the advisory that the server publishes (2.10.4 and later)."""
        check_text(reason=reason)
        self._send(b"+TERM " + to_wire(reason) if reason else b"+TERM")

    def in_progress(self) -> None:
        """Tells the server that the message is still being handled: `ack_wait` begins again. May be
        called any number of times before the message is settled."""
        self._check_ack()
        if self.settled:
            raise MsgAlreadyAckdError(self.reply)
        self._core.respond(self, b"+WPI")

    def _send(self, payload: bytes) -> None:
        self._check_ack()
        try:  # as `_settle`, without a call: most messages are acknowledged
            del self._unsettled
        except AttributeError:
            raise MsgAlreadyAckdError(self.reply) from None
        try:
            self._core.respond(self, payload)
        except BaseException:
            self._unsettled = True
            raise

    def _settle(self) -> None:
        """Marks the message as settled; the caller undoes this if it cannot send."""
        self._check_ack()
        try:
            del self._unsettled
        except AttributeError:
            raise MsgAlreadyAckdError(self.reply) from None

    def _check_ack(self) -> None:
        if _WIRE_PREFIX not in self._frame.reply:
            raise NotJSMessageError(self.reply)

    def __repr__(self) -> str:
        return (
            f"JetStreamMsg(subject={self.subject!r}, reply={self.reply!r}, {len(self.data)} bytes)"
        )


class AckNoneMsg(JetStreamMsg):
    """A message of a consumer with ack policy `none`: each acknowledgement raises
    CantAckIfConsumerAckNoneError."""

    __slots__ = ()

    def _check_ack(self) -> NoReturn:
        raise CantAckIfConsumerAckNoneError(self.subject)
