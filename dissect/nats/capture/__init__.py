"""Capture files, folders and standard input -> packets in one timeline."""

from .report import CaptureReport, FileReport
from .sources import is_input, read_packets

__all__ = ["CaptureReport", "FileReport", "is_input", "read_packets"]
