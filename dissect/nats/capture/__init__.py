"""Capture files, folders and standard input -> packets in one timeline."""

from .report import CaptureReport, FileReport, InterfaceReport
from .sources import is_input, read_packets, read_runs

__all__ = [
    "CaptureReport",
    "FileReport",
    "InterfaceReport",
    "is_input",
    "read_packets",
    "read_runs",
]
