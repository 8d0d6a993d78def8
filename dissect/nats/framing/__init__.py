"""Chunks and gaps of a TCP connection -> NATS frames, whatever is lost, and whenever the capture began."""

from .byte_counts import ByteCounts
from .connection import ConnectionFraming
from .frame_stream import FrameStream
from .resync import Quota

__all__ = ["ByteCounts", "ConnectionFraming", "FrameStream", "Quota"]
