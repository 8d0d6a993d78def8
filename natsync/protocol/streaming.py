"""The messages of NATS Streaming (STAN): protobuf bytes to values and back. No I/O, no clock.

NATS Streaming is an application protocol: each of its messages is the payload of a core NATS message, and
the subject alone says which type it has. The schema is that of stan.go (pb/protocol.proto), encoded as
https://protobuf.dev/programming-guides/encoding says: defaults are left out, so a message of nothing but
defaults has no bytes; a field that comes twice has its last value; a number that is too large for its field
loses its high bits; text that is not UTF-8 survives as lone surrogates (PEP 383), since Go does not check it.

Fields that the schema does not have are kept in `unknown`, and written back. Everything else that is not a
valid message raises ProtocolError: a field that ends after the payload, a known field with another wire
type, a number of more than 64 bits, a group.

>>> PubAck(guid="m1").to_bytes()
b'\\n\\x02m1'
>>> PubAck.parse(b"\\n\\x02m1")
PubAck(guid='m1', error='')
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from enum import Enum, IntEnum
from typing import Annotated, ClassVar, TypeVar, get_args, get_type_hints

from .errors import ProtocolError

__all__ = [
    "Ack",
    "CloseRequest",
    "CloseResponse",
    "ConnectRequest",
    "ConnectResponse",
    "DISCOVER",
    "MESSAGES",
    "MsgProto",
    "Ping",
    "PingResponse",
    "PubAck",
    "PubMsg",
    "StartPosition",
    "StreamingMessage",
    "SubscriptionRequest",
    "SubscriptionResponse",
    "UnsubscribeRequest",
    "is_channel",
]

DISCOVER = "_STAN.discover"
"""The prefix of the subject that takes a ConnectRequest, `_STAN.discover.CLUSTER`, unless the server was
configured with another prefix. The reply names all other subjects of the server."""

_CHANNEL = re.compile(r"[^ \t\r\n.*>/]+(?:\.[^ \t\r\n.*>/]+)*")


def is_channel(name: str) -> bool:
    """Whether a channel may have this name: tokens between dots, none empty, without `*`, `>` and `/`
    (nats-streaming-server, util.IsChannelNameValid), and without the blanks that end a NATS subject.
    """
    return _CHANNEL.fullmatch(name) is not None


class _Type(Enum):
    """A scalar type of protobuf: its number, its wire type, its bits, and whether it has a sign."""

    STRING = (0, 2)
    BYTES = (1, 2)
    BOOL = (2, 0, 64)
    INT32 = (3, 0, 32, True)
    UINT32 = (4, 0, 32)
    INT64 = (5, 0, 64, True)
    UINT64 = (6, 0, 64)

    def __init__(self, _: int, wire_type: int, bits: int = 0, signed: bool = False) -> None:
        self.wire_type = wire_type
        self.modulus = 1 << bits
        self.least = -(self.modulus >> 1) if signed else 0


String = Annotated[str, _Type.STRING]
Bytes = Annotated[bytes, _Type.BYTES]
Bool = Annotated[bool, _Type.BOOL]
Int32 = Annotated[int, _Type.INT32]
UInt32 = Annotated[int, _Type.UINT32]
Int64 = Annotated[int, _Type.INT64]
UInt64 = Annotated[int, _Type.UINT64]

_STRING, _BYTES, _BOOL = _Type.STRING, _Type.BYTES, _Type.BOOL
_VARINT, _LENGTH = 0, 2
_FIXED_BYTES = {1: 8, 5: 4}
_MAX_TAG = (1 << 32) - 1
_MAX_VARINT_BYTES = 10
_M = TypeVar("_M", bound="StreamingMessage")


class StartPosition(IntEnum):
    """Where a new subscription begins in its channel. A durable that is resumed ignores it."""

    NEW_ONLY = 0
    LAST_RECEIVED = 1
    TIME_DELTA_START = 2
    SEQUENCE_START = 3
    FIRST = 4


@dataclass(slots=True)
class StreamingMessage:
    """The common part of all messages."""

    unknown: bytes = field(default=b"", kw_only=True, repr=False)
    """The fields, tags included, that the schema does not have."""

    _known: ClassVar[dict[int, tuple[str, _Type]]]
    """The fields by their tags, in the order of their numbers."""

    @classmethod
    def parse(cls: type[_M], payload: bytes) -> _M:
        """The message in `payload`. Raises ProtocolError; its offset counts from the start of the payload."""
        message, known, unknown = cls(), cls._known, bytearray()
        at, end = 0, len(payload)
        try:
            while at < end:
                start = at
                tag = payload[at]
                at += 1
                if tag & 0x80:
                    tag, at = _read_varint(payload, start)
                wire_type = tag & 7
                number = 0
                if wire_type == _VARINT:
                    number, at = _read_varint(payload, at)
                elif wire_type == _LENGTH:
                    number, at = _read_varint(payload, at)
                    at += number
                elif wire_type in _FIXED_BYTES:
                    at += _FIXED_BYTES[wire_type]
                else:
                    raise ProtocolError(f"{cls.__name__} with wire type {wire_type}", start)
                if at > end:
                    raise _truncated(cls, start)
                if tag in known:
                    name, kind = known[tag]
                    setattr(message, name, _value(kind, number, payload, at))
                else:
                    _check_unknown(cls, tag, start)
                    unknown += payload[start:at]
        except IndexError:
            raise _truncated(cls, start) from None
        message.unknown = bytes(unknown)
        return message

    def to_bytes(self) -> bytes:
        """The payload. Raises ProtocolError for a number that its field cannot hold, and for text that cannot
        be UTF-8."""
        pieces = []
        for tag, (name, kind) in self._known.items():
            value = getattr(self, name)
            if value:
                pieces.append(_field(tag, name, kind, value))
        pieces.append(self.unknown)
        return b"".join(pieces)


def _read_varint(payload: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and the index after it. Raises IndexError if the payload ends first."""
    byte = payload[at]
    if byte < 0x80:
        return byte, at + 1
    number, shift, start = byte & 0x7F, 7, at
    for at in range(start + 1, start + _MAX_VARINT_BYTES):
        byte = payload[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> 64:
                break
            return number, at + 1
        shift += 7
    raise ProtocolError("a number of more than 64 bits", start)


def _value(kind: _Type, number: int, payload: bytes, end: int) -> str | bytes | int:
    """The value of a field: `number` is its number or its size, `end` the index after its last byte."""
    if kind is _STRING:
        return str(payload[end - number : end], "utf-8", "surrogateescape")
    if kind is _BYTES:
        return payload[end - number : end]
    if kind is _BOOL:
        return number != 0
    return (number - kind.least) % kind.modulus + kind.least


def _check_unknown(cls: type[StreamingMessage], tag: int, start: int) -> None:
    number = tag >> 3
    if not number or tag > _MAX_TAG:
        raise ProtocolError(f"{cls.__name__} with the illegal field number {number}", start)
    for known, (name, _) in cls._known.items():
        if known >> 3 == number:
            raise ProtocolError(f"{cls.__name__}.{name} with wire type {tag & 7}", start)


def _truncated(cls: type[StreamingMessage], start: int) -> ProtocolError:
    return ProtocolError(f"{cls.__name__} with a truncated field", start)


def _field(tag: int, name: str, kind: _Type, value: str | bytes | int) -> bytes:
    if isinstance(value, str):
        try:
            value = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ProtocolError(f"{name} with a lone surrogate, which is not UTF-8") from None
    if isinstance(value, bytes):
        return _varint(tag) + _varint(len(value)) + value
    if not kind.least <= value < kind.least + kind.modulus:
        raise ProtocolError(f"{name} of {value} is out of the range of {kind.name.lower()}")
    return _varint(tag) + _varint(value % (1 << 64))


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    pieces = bytearray()
    while number >= 0x80:
        pieces.append(number & 0x7F | 0x80)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)


@dataclass(slots=True)
class ConnectRequest(StreamingMessage):
    """Client to `DISCOVER.CLUSTER`; the reply is a ConnectResponse.

    `protocol` 1 asks for pings, every `ping_interval` seconds. `conn_id` is any bytes.
    """

    client_id: Annotated[String, 1] = ""
    heartbeat_inbox: Annotated[String, 2] = ""
    protocol: Annotated[Int32, 3] = 0
    conn_id: Annotated[Bytes, 4] = b""
    ping_interval: Annotated[Int32, 5] = 0
    ping_max_out: Annotated[Int32, 6] = 0


@dataclass(slots=True)
class ConnectResponse(StreamingMessage):
    """The subjects for all other requests, or only an error.

    `ping_interval` is in seconds. Old servers have no `sub_close_requests`, or no pings.
    """

    pub_prefix: Annotated[String, 1] = ""
    sub_requests: Annotated[String, 2] = ""
    unsub_requests: Annotated[String, 3] = ""
    close_requests: Annotated[String, 4] = ""
    error: Annotated[String, 5] = ""
    sub_close_requests: Annotated[String, 6] = ""
    ping_requests: Annotated[String, 7] = ""
    ping_interval: Annotated[Int32, 8] = 0
    ping_max_out: Annotated[Int32, 9] = 0
    protocol: Annotated[Int32, 10] = 0
    public_key: Annotated[String, 100] = ""


@dataclass(slots=True)
class Ping(StreamingMessage):
    """Client to `ConnectResponse.ping_requests`: is this connection still known?"""

    conn_id: Annotated[Bytes, 1] = b""


@dataclass(slots=True)
class PingResponse(StreamingMessage):
    """The reply to a Ping; without an error it has no bytes."""

    error: Annotated[String, 1] = ""


@dataclass(slots=True)
class PubMsg(StreamingMessage):
    """Client to `ConnectResponse.pub_prefix` and the channel; the reply is a PubAck with the same `guid`."""

    client_id: Annotated[String, 1] = ""
    guid: Annotated[String, 2] = ""
    subject: Annotated[String, 3] = ""
    reply: Annotated[String, 4] = ""
    data: Annotated[Bytes, 5] = b""
    conn_id: Annotated[Bytes, 6] = b""
    sha256: Annotated[Bytes, 10] = b""


@dataclass(slots=True)
class PubAck(StreamingMessage):
    """The message with this `guid` is stored, or was refused."""

    guid: Annotated[String, 1] = ""
    error: Annotated[String, 2] = ""


@dataclass(slots=True)
class MsgProto(StreamingMessage):
    """A message of a channel, sent to `SubscriptionRequest.inbox`.

    `sequence` counts the messages of the channel, `timestamp` is the time of storing in ns since 1970, and
    `redelivery_count` begins anew when the server does. No server sets `crc32`.
    """

    sequence: Annotated[UInt64, 1] = 0
    subject: Annotated[String, 2] = ""
    reply: Annotated[String, 3] = ""
    data: Annotated[Bytes, 4] = b""
    timestamp: Annotated[Int64, 5] = 0
    redelivered: Annotated[Bool, 6] = False
    redelivery_count: Annotated[UInt32, 7] = 0
    crc32: Annotated[UInt32, 10] = 0


@dataclass(slots=True)
class Ack(StreamingMessage):
    """Client to `SubscriptionResponse.ack_inbox`: this message was processed. There is no reply."""

    subject: Annotated[String, 1] = ""
    sequence: Annotated[UInt64, 2] = 0


@dataclass(slots=True)
class SubscriptionRequest(StreamingMessage):
    """Client to `ConnectResponse.sub_requests`; the reply is a SubscriptionResponse.

    `start_time_delta` is in ns before now, `ack_wait` in seconds, `start_position` a `StartPosition`.
    """

    client_id: Annotated[String, 1] = ""
    subject: Annotated[String, 2] = ""
    queue_group: Annotated[String, 3] = ""
    inbox: Annotated[String, 4] = ""
    max_in_flight: Annotated[Int32, 5] = 0
    ack_wait: Annotated[Int32, 6] = 0
    durable_name: Annotated[String, 7] = ""
    start_position: Annotated[Int32, 10] = 0
    start_sequence: Annotated[UInt64, 11] = 0
    start_time_delta: Annotated[Int64, 12] = 0


@dataclass(slots=True)
class SubscriptionResponse(StreamingMessage):
    """The reply to a SubscriptionRequest, and to an UnsubscribeRequest, where it has no bytes unless there is
    an error."""

    ack_inbox: Annotated[String, 2] = ""
    error: Annotated[String, 3] = ""


@dataclass(slots=True)
class UnsubscribeRequest(StreamingMessage):
    """Client to `ConnectResponse.unsub_requests`, which forgets a durable, or `sub_close_requests`, which
    keeps it. `inbox` is `SubscriptionResponse.ack_inbox`, or the inbox of the request if it got no reply.
    """

    client_id: Annotated[String, 1] = ""
    subject: Annotated[String, 2] = ""
    inbox: Annotated[String, 3] = ""
    durable_name: Annotated[String, 4] = ""


@dataclass(slots=True)
class CloseRequest(StreamingMessage):
    """Client to `ConnectResponse.close_requests`; the reply is a CloseResponse."""

    client_id: Annotated[String, 1] = ""


@dataclass(slots=True)
class CloseResponse(StreamingMessage):
    """The reply to a CloseRequest; without an error it has no bytes."""

    error: Annotated[String, 1] = ""


MESSAGES: tuple[type[StreamingMessage], ...] = (
    *(ConnectRequest, ConnectResponse, Ping, PingResponse, PubMsg, PubAck, MsgProto, Ack),
    *(SubscriptionRequest, SubscriptionResponse, UnsubscribeRequest, CloseRequest, CloseResponse),
)


def _fields_by_tag(cls: type[StreamingMessage]) -> dict[int, tuple[str, _Type]]:
    hints = get_type_hints(cls, include_extras=True)
    known = {}
    for name in (each.name for each in fields(cls) if each.name != "unknown"):
        _, kind, number = get_args(hints[name])
        known[number << 3 | kind.wire_type] = name, kind
    return known


for _message in MESSAGES:
    _message._known = _fields_by_tag(_message)
