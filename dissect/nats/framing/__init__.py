"""Chunks and gaps of a TCP connection -> NATS frames, even after losses and in captures that begin late."""

from .byte_counts import ByteCounts
from .connection import ConnectionFraming
from .finished import FinishedFraming, finished, without_bytes
from .frame_stream import FrameStream
from .resync.resynchronizer import Quota

__all__ = [
    "ByteCounts",
    "ConnectionFraming",
    "FinishedFraming",
    "FrameStream",
    "Quota",
    "finished",
    "without_bytes",
]
