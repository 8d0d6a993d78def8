"""Capture files, folders and standard input -> packets in one timeline."""

from .report import CaptureReport, FileReport
from .sources import read_packets

__all__ = ["CaptureReport", "FileReport", "read_packets"]
