"""Offline dissector for NATS: reads packet captures and returns sessions, frames and other tables."""

from .api import (
    anomalies,
    flows,
    frames,
    records,
    requests,
    servers,
    sessions,
    subscriptions,
    table,
)
from .application.servers import ServerRecord
from .capture import CaptureReport
from .errors import CaptureError
from .options import Options, Payload
from .schema.records import (
    AnomalyRecord,
    FlowRecord,
    FrameRecord,
    RequestRecord,
    SessionRecord,
    SubscriptionRecord,
)
from .tables import TABLES

__all__ = [
    "AnomalyRecord",
    "CaptureError",
    "CaptureReport",
    "FlowRecord",
    "FrameRecord",
    "Options",
    "Payload",
    "RequestRecord",
    "ServerRecord",
    "SessionRecord",
    "SubscriptionRecord",
    "TABLES",
    "anomalies",
    "flows",
    "frames",
    "records",
    "requests",
    "servers",
    "sessions",
    "subscriptions",
    "table",
]
