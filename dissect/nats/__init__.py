"""Offline dissector for NATS: captures in, sessions and frames out."""

from .capture import CaptureReport
from .errors import CaptureError
from .framing import Payload
from .pipeline import frames, sessions
from .records import COLUMNS, FrameRecord, SessionRecord

__all__ = [
    "COLUMNS",
    "CaptureError",
    "CaptureReport",
    "FrameRecord",
    "Payload",
    "SessionRecord",
    "frames",
    "sessions",
]
