"""The table of NATS Streaming."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from ..declaration import ApplicationLayer, Table, TextColumn
from ..number_formats import duration_text, moment_text, size_text
from .messages import is_message
from .streaming_records import StreamingRecord
from .streaming_session import Streaming


def _text(name: str) -> Callable[..., str]:
    get = attrgetter(name)
    return lambda row: "" if get(row) is None else str(get(row))


def _size(row: StreamingRecord) -> str:
    return size_text(row.payload_bytes) if row.payload_bytes else ""


STREAMING = Table(
    name="streaming",
    singular="NATS Streaming operation",
    summary="List operations of NATS Streaming: publications, deliveries, acks.",
    row=StreamingRecord,
    time="ts_ns",
    position=attrgetter("ts_ns", "session", "number", "op"),
    window=20_000,
    text=(
        TextColumn("session", 16, attrgetter("session"), shorter=lambda cell: cell[:8], rank=8),
        TextColumn(
            "time", 23, lambda row: moment_text(row.ts_ns), shorter=lambda cell: cell[11:], rank=7
        ),
        TextColumn("cluster", 12, _text("cluster_id"), gives=True, rank=6),
        TextColumn("client", 12, _text("client_id"), gives=True),
        TextColumn("op", 13, attrgetter("op")),
        TextColumn("channel", 16, _text("channel"), gives=True),
        TextColumn("seq", 6, _text("sequence"), right=True),
        TextColumn(
            "again", 5, lambda row: str(row.redelivery_count or ("yes" if row.redelivered else ""))
        ),
        TextColumn("durable", 10, _text("durable"), gives=True, rank=3),
        TextColumn("queue", 10, _text("queue"), gives=True, rank=4),
        TextColumn("start", 12, _text("start"), gives=True, rank=5),
        TextColumn("bytes", 7, _size, right=True),
        TextColumn(
            "latency",
            8,
            lambda row: "" if row.latency_ns is None else duration_text(row.latency_ns),
            right=True,
            rank=2,
        ),
        TextColumn(
            "error",
            20,
            lambda row: " ".join(filter(None, (row.error, *(row.anomalies or ())))),
            gives=True,
            alarm=True,
        ),
    ),
    layer=ApplicationLayer(is_message, Streaming),
    payloads=True,
)
