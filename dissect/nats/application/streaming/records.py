"""The rows of NATS Streaming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ...anomalies import Anomaly
from ...declaration import LayerFrame
from ...records import Record


@dataclass(slots=True, kw_only=True)
class StreamingRecord(Record):
    """One operation of NATS Streaming."""

    session: Annotated[str, "session id: 16 hex digits"]
    number: Annotated[int, "number of its frame"]
    ts_ns: Annotated[int, "time of its frame"]
    kind: Annotated[str, "kind of the connection"]
    account: Annotated[str | None, "account, on server links"] = None
    cluster_id: Annotated[str | None, "cluster id of the streaming server"] = None
    client_id: Annotated[str | None, "client id"] = None
    op: Annotated[
        str,
        "connect, publish, ack_published, subscribe, deliver, ack, unsubscribe, close_subscription, close,"
        " ping or heartbeat",
    ]
    channel: Annotated[str | None, "channel"] = None
    guid: Annotated[str | None, "id of a publication"] = None
    sequence: Annotated[int | None, "sequence of the message in its channel"] = None
    stored_ns: Annotated[int | None, "when the server stored the message"] = None
    redelivered: Annotated[bool | None, "true where it was delivered before"] = None
    redelivery_count: Annotated[int | None, "how often"] = None
    durable: Annotated[str | None, "durable name"] = None
    queue: Annotated[str | None, "queue group"] = None
    start: Annotated[
        str | None,
        "where a subscription begins: new_only, last_received, first, sequence N, NS ns ago",
    ] = None
    max_in_flight: Annotated[int | None, "messages without an ack that it allows"] = None
    ack_wait_ns: Annotated[int | None, "how long the server waits for an ack"] = None
    inbox: Annotated[str | None, "where a subscription's messages come"] = None
    payload_bytes: Annotated[int | None, "size of the message's data"] = None
    error: Annotated[str | None, "why it was refused"] = None
    latency_ns: Annotated[
        int | None, "from a request to its answer; of an ack, from the delivery to it"
    ] = None
    evidence: Annotated[
        str,
        "why it is one: discovered (the server named the subject), inbox (a request did), subject, or shape",
    ]
    anomalies: Annotated[list[str] | None, "what is odd about it"] = None
    payload: Annotated[
        str | None, "publish and deliver: the message's data, when asked for: as text or in base64"
    ] = None
    payload_sha256: Annotated[str | None, "SHA-256 of that data, when asked for"] = None


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
    """Notes that the message of a frame could not be read: it is cut, or no protobuf."""
    cut = frame.captured_bytes is not None
    mark(row, Anomaly.TRUNCATED.value if cut else Anomaly.BAD_PROTOBUF.value)
