"""Capture files, folders and standard input -> packets in one timeline."""

from .report import CaptureReport, FileReport, InterfaceReport, linktype_name
from .sources import is_input, read_packets, read_runs

__all__ = [
    "CaptureReport",
    "FileReport",
    "InterfaceReport",
    "is_input",
    "linktype_name",
    "read_packets",
    "read_runs",
]
