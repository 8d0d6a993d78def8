"""The TLS secrets in pcapng files (Decryption Secrets Blocks), read before the packets that need them.

The draft of the format requires secrets before their packets, and Wireshark uses only those. But programs
that extract secrets from running processes write them when they find them, which is often later. So secrets
apply to all captures that are read together. A stream can be read only once: its secrets apply to the packets
after them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..secrets.key_log import KeyLog
from .pcapng.section import TLS_KEY_LOG
from .reader import NOWHERE
from .report import CaptureReport, FileReport
from .sources import file_size, files_of, read_file, unpacked

# Every block with TLS secrets has one of these, in the byte order of its section. Few files have none by
# chance, and it is found at the speed of memory.
_MARKS = tuple(TLS_KEY_LOG.to_bytes(4, order) for order in ("little", "big"))
_BORDER = 3  # bytes of a mark that may end a piece


def read_secrets(paths: Sequence[str], max_expanded: int | None, embedded: KeyLog) -> None:
    """Fills `embedded` with the secrets of all captures that the inputs name, in order of their names. If one
    of the inputs is a stream, it does nothing. Raises CaptureError if a file cannot be read."""
    files = files_of(paths, CaptureReport())
    if None in map(file_size, files):
        return
    embedded.clear()
    for path in files:
        if _may_have_secrets(path, max_expanded):
            report = FileReport(path, "")
            for _ in read_file(path, report, NOWHERE, max_expanded, embedded):
                pass


def _may_have_secrets(path: str, max_expanded: int | None) -> bool:
    """Whether the contents of a file are pcapng and have a mark somewhere."""
    report = FileReport(path, "")
    with unpacked(path, report, max_expanded) as blocks:
        if not report.format.endswith("pcapng"):
            return False
        while blocks.fill(_BORDER + 1):
            if any(mark in blocks.data for mark in _MARKS):
                return True
            blocks.at = len(blocks.data) - _BORDER
    return False
