"""The table of NATS Streaming."""

from __future__ import annotations

from operator import attrgetter

from ...schema.declaration import ApplicationLayer, Table, text_columns
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
    text=text_columns(
        StreamingRecord,
        "session ts_ns cluster_id client_id op channel sequence redelivered durable queue start"
        " payload_bytes latency_ns error payload",
    ),
    layer=ApplicationLayer(MESSAGES, Streaming),
    payloads=True,
)
