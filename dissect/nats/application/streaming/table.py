"""The table of NATS Streaming."""

from __future__ import annotations

from operator import attrgetter

from ...number_formats import duration_text, moment_text, size_text
from ...schema.declaration import ApplicationLayer, Table, TextColumn
from ..cells import cell, count_cell, payload_cell
from ..messages import MESSAGES
from .records import StreamingRecord
from .session import Streaming

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
        TextColumn("cluster", 12, cell("cluster_id"), may_cut=True, rank=6),
        TextColumn("client", 12, cell("client_id"), may_cut=True),
        TextColumn("op", 13, attrgetter("op")),
        TextColumn("channel", 16, cell("channel"), may_cut=True),
        TextColumn("seq", 6, cell("sequence"), right=True),
        TextColumn(
            "again", 5, lambda row: str(row.redelivery_count or ("yes" if row.redelivered else ""))
        ),
        TextColumn("durable", 10, cell("durable"), may_cut=True, rank=3),
        TextColumn("queue", 10, cell("queue"), may_cut=True, rank=4),
        TextColumn("start", 12, cell("start"), may_cut=True, rank=5),
        TextColumn("bytes", 7, count_cell("payload_bytes", size_text), right=True),
        TextColumn(
            "latency",
            8,
            cell("latency_ns", duration_text),
            right=True,
            rank=2,
        ),
        TextColumn(
            "error",
            20,
            lambda row: " ".join(filter(None, (row.error, *(row.anomalies or ())))),
            may_cut=True,
            alarm=True,
        ),
        TextColumn("payload", 24, payload_cell, may_cut=True),
    ),
    layer=ApplicationLayer(MESSAGES, Streaming),
    payloads=True,
)
