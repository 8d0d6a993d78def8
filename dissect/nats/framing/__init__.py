"""Chunks and gaps of a TCP connection -> NATS frames, even after losses and in captures that begin late."""

from .connection import ConnectionFacts, ConnectionFraming
from .finished import FinishedFraming, finished, without_bytes
from .frame_stream import ByteCounts, FrameStream
from .resync.resynchronizer import Quota
from .state import Verdict
from .trace import Trace, is_traced

__all__ = [
    "ByteCounts",
    "ConnectionFacts",
    "ConnectionFraming",
    "FinishedFraming",
    "FrameStream",
    "Quota",
    "Trace",
    "Verdict",
    "finished",
    "is_traced",
    "without_bytes",
]
