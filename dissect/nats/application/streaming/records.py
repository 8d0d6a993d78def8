"""The rows of NATS Streaming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ...schema.anomalies import Anomaly
from ...schema.declaration import LayerFrame
from ...schema.records import Record


@dataclass(slots=True, kw_only=True)
class StreamingRecord(Record):
    """One operation of NATS Streaming."""

    session: Annotated[str, "session id: 16 hex digits"]
    number: Annotated[int, "number of the operation's frame"]
    ts_ns: Annotated[int, "time of the operation's frame"]
    kind: Annotated[str, "kind of the connection"]
    account: Annotated[str | None, "account, on connections between servers"] = None
    cluster_id: Annotated[str | None, "cluster id of the NATS Streaming server"] = None
    client_id: Annotated[str | None, "client id"] = None
    op: Annotated[
        str,
        "operation: connect, publish, ack_published, subscribe, deliver, ack, unsubscribe, "
        "close_subscription, close, ping or heartbeat",
    ]
    channel: Annotated[str | None, "name of the channel"] = None
    guid: Annotated[str | None, "id of a publication"] = None
    sequence: Annotated[int | None, "sequence of the message in its channel"] = None
    stored_ns: Annotated[int | None, "when the server stored the message"] = None
    redelivered: Annotated[bool | None, "true if the message was delivered before"] = None
    redelivery_count: Annotated[int | None, "number of earlier deliveries"] = None
    durable: Annotated[str | None, "name of the durable subscription"] = None
    queue: Annotated[str | None, "queue group"] = None
    start: Annotated[
        str | None,
        "where the subscription begins: new_only, last_received, first, sequence N, NS ns ago",
    ] = None
    max_in_flight: Annotated[
        int | None, "number of messages without an ack that the subscription allows"
    ] = None
    ack_wait_ns: Annotated[
        int | None, "time after which the server delivers an unacknowledged message again"
    ] = None
    inbox: Annotated[str | None, "subject to which the subscription's messages are sent"] = None
    payload_bytes: Annotated[int | None, "size of the message's data"] = None
    error: Annotated[str | None, "why the operation was refused"] = None
    latency_ns: Annotated[
        int | None, "time from the request to its answer; of an ack, from the delivery to the ack"
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
    ] = None
    payload_sha256: Annotated[
        str | None, "SHA-256 of the message's whole data, if it was asked for"
    ] = None


def mark(row: StreamingRecord, anomaly: str) -> None:
    row.anomalies = [*(row.anomalies or ()), anomaly]


def new_row(frame: LayerFrame, op: str, evidence: str) -> StreamingRecord:
    return StreamingRecord(
        session=frame.session,
        number=frame.number,
        ts_ns=frame.ts_ns,
        kind=frame.kind,
        account=frame.account,
        op=op,
        evidence=evidence,
    )


def mark_unread(row: StreamingRecord, frame: LayerFrame) -> None:
    """Notes that the message of a frame could not be read: it is truncated, or not a protobuf."""
    cut = frame.captured_bytes is not None
    mark(row, Anomaly.TRUNCATED.value if cut else Anomaly.BAD_PROTOBUF.value)


def show_payload(row: StreamingRecord, frame: LayerFrame, data: bytes) -> None:
    """Sets the columns about the data of the message in a frame."""
    row.payload_bytes = len(data)
    row.payload, row.payload_sha256 = frame.shown.columns(data, frame.is_whole)
