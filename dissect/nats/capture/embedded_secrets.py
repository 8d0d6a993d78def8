"""The TLS secrets in pcapng files (Decryption Secrets Blocks), read before the packets that need them.

The pcapng draft requires that secrets precede the packets they decrypt, and Wireshark uses no others. But
programs that extract secrets from running processes write them when they find them, which is often later. So
secrets apply to all captures that are read together. A stream can be read only once: its secrets apply only
to the packets after them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..secrets.key_log import KeyLog, decryption_lack
from .pcapng.section import SECRETS_NAME, TLS_KEY_LOG
from .reader import NOWHERE
from .report import CaptureReport, FileReport
from .sources import file_size, files_of, read_file, unpacked

# Every block with TLS secrets contains one of these marks, in the byte order of its section. Few other files
# contain one by chance, and the search runs at the speed of memory.
_MARKS = tuple(TLS_KEY_LOG.to_bytes(4, order) for order in ("little", "big"))
_BORDER = 3  # bytes of a mark that may be at the end of one piece, with the rest in the next


def read_secrets(paths: Sequence[str], max_expanded: int | None, embedded: KeyLog) -> None:
    """Fills `embedded` with the secrets of all captures that the inputs name, in the order of the inputs.
    Does nothing if one of the inputs is a stream. Raises CaptureError if a file cannot be read."""
    files = files_of(paths, CaptureReport())
    if None in map(file_size, files):
        return
    embedded.clear()
    for path in files:
        if _may_have_secrets(path, max_expanded):
            report = FileReport(path, "")
            for _ in read_file(path, report, NOWHERE, max_expanded, embedded):
                pass


def unused_secrets(report: CaptureReport) -> Iterator[str]:
    """One sentence if the captures have secrets, but the library that decrypts is not installed."""
    if any(file.blocks[SECRETS_NAME] for file in report.files) and (lack := decryption_lack()):
        yield f"decryption secrets in the captures are not used: {lack}"


def _may_have_secrets(path: str, max_expanded: int | None) -> bool:
    """Whether a file is pcapng, perhaps compressed, and contains a mark."""
    report = FileReport(path, "")
    with unpacked(path, report, max_expanded) as blocks:
        if not report.format.endswith("pcapng"):
            return False
        while blocks.fill(_BORDER + 1):
            if any(mark in blocks.data for mark in _MARKS):
                return True
            blocks.at = len(blocks.data) - _BORDER
    return False
