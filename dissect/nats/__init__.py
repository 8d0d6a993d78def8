"""Offline dissector for NATS: captures in, sessions, frames and what follows from them out."""

from .capture import CaptureReport
from .errors import CaptureError
from .options import Options, Payload
from .pipeline import anomalies, flows, frames, records, requests, sessions, subscriptions
from .records import (
    COLUMNS,
    AnomalyRecord,
    FlowRecord,
    FrameRecord,
    RequestRecord,
    SessionRecord,
    SubscriptionRecord,
)

__all__ = [
    "COLUMNS",
    "AnomalyRecord",
    "CaptureError",
    "CaptureReport",
    "FlowRecord",
    "FrameRecord",
    "Options",
    "Payload",
    "RequestRecord",
    "SessionRecord",
    "SubscriptionRecord",
    "anomalies",
    "flows",
    "frames",
    "records",
    "requests",
    "sessions",
    "subscriptions",
]
