"""The rows of NATS Streaming, and what reads its messages without raising."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeVar

from natsync.protocol import ProtocolError
from natsync.protocol.streaming import (
    MsgProto,
    StartPosition,
    StreamingMessage,
    SubscriptionRequest,
    is_channel,
)

from ...schema.anomalies import Anomaly
from ...schema.declaration import LayerFrame, TextColumn
from ..rows import ERROR, LATENCY, PAYLOAD, TIME, SessionRow, head, mark, sized

_FIRST_NS = 1_400_000_000 * 10**9  # NATS Streaming is younger
_DAY_NS = 86_400 * 10**9
_M = TypeVar("_M", bound=StreamingMessage)


def _again(row: StreamingRecord) -> str:
    return str(row.redelivery_count or ("yes" if row.redelivered else ""))


@dataclass(slots=True, kw_only=True)
class StreamingRecord(SessionRow):
    """One operation of NATS Streaming."""

    number: Annotated[int, "number of the operation's frame"]
    ts_ns: Annotated[int, "time of the operation's frame", TIME]
    cluster_id: Annotated[
        str | None,
        "cluster id of the NATS Streaming server",
        TextColumn("cluster", 12, may_cut=True, rank=6),
    ] = None
    client_id: Annotated[str | None, "client id", TextColumn("client", 12, may_cut=True)] = None
    op: Annotated[
        str,
        "operation: connect, publish, ack_published, subscribe, deliver, ack, unsubscribe, "
        "close_subscription, close, ping or heartbeat",
        TextColumn("op", 13),
    ]
    channel: Annotated[
        str | None, "name of the channel", TextColumn("channel", 16, may_cut=True)
    ] = None
    guid: Annotated[str | None, "id of a publication"] = None
    sequence: Annotated[
        int | None, "sequence of the message in its channel", TextColumn("seq", 6)
    ] = None
    stored_ns: Annotated[int | None, "when the server stored the message"] = None
    redelivered: Annotated[
        bool | None, "true if the message was delivered before", TextColumn("again", 5, _again)
    ] = None
    redelivery_count: Annotated[int | None, "number of earlier deliveries"] = None
    durable: Annotated[
        str | None,
        "name of the durable subscription",
        TextColumn("durable", 10, may_cut=True, rank=3),
    ] = None
    queue: Annotated[str | None, "queue group", TextColumn("queue", 10, may_cut=True, rank=4)] = (
        None
    )
    start: Annotated[
        str | None,
        "where the subscription begins: new_only, last_received, first, sequence N, NS ns ago",
        TextColumn("start", 12, may_cut=True, rank=5),
    ] = None
    max_in_flight: Annotated[
        int | None, "number of messages without an ack that the subscription allows"
    ] = None
    ack_wait_ns: Annotated[
        int | None, "time after which the server delivers an unacknowledged message again"
    ] = None
    inbox: Annotated[str | None, "subject to which the subscription's messages are sent"] = None
    payload_bytes: Annotated[int | None, "size of the message's data", sized("bytes")] = None
    error: Annotated[str | None, "why the operation was refused", ERROR] = None
    latency_ns: Annotated[
        int | None,
        "time from the request to its answer; of an ack, from the delivery to the ack",
        LATENCY,
    ] = None
    evidence: Annotated[
        str,
        "how the operation was recognized: discovered (the server named the subject), inbox "
        "(a request named it), subject, or shape",
    ]
    anomalies: Annotated[list[str] | None, "anomalies of the operation"] = None
    payload: Annotated[
        str | None,
        "the data of a published or delivered message, as text or in base64, if it was asked "
        "for",
        PAYLOAD,
    ] = None
    payload_sha256: Annotated[
        str | None, "SHA-256 of the message's whole data, if it was asked for"
    ] = None


def new_row(frame: LayerFrame, op: str, evidence: str) -> StreamingRecord:
    return StreamingRecord(**head(frame), op=op, evidence=evidence)


def mark_unread(row: StreamingRecord, frame: LayerFrame) -> None:
    """Notes that the message of a frame could not be read: it is truncated, or not a protobuf."""
    mark(row, (Anomaly.BAD_PROTOBUF if frame.is_whole else Anomaly.TRUNCATED).value)


def show_payload(row: StreamingRecord, frame: LayerFrame, data: bytes) -> None:
    """Sets the columns about the data of the message in a frame."""
    row.payload_bytes = len(data)
    row.payload, row.payload_sha256 = frame.shown.columns(data, frame.is_whole)


def is_plausible(message: MsgProto, frame: LayerFrame) -> bool:
    """Whether a parsed message may be a delivery: it has all fields that a server sets, and no other."""
    return (
        message.sequence > 0
        and not message.unknown
        and is_channel(message.subject)
        and _FIRST_NS < message.timestamp < frame.ts_ns + _DAY_NS
    )


def parsed(kind: type[_M], frame: LayerFrame) -> _M | None:
    try:
        return kind.parse(frame.content)
    except ProtocolError:
        return None


def start_text(request: SubscriptionRequest) -> str:
    position = request.start_position
    if position == StartPosition.SEQUENCE_START:
        return f"sequence {request.start_sequence}"
    if position == StartPosition.TIME_DELTA_START:
        return f"{request.start_time_delta} ns ago"
    known = {each.value: each.name.lower() for each in StartPosition}
    return known.get(position, str(position))
