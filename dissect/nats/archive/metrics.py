"""The counters of an archive as a text file for Prometheus, which node_exporter's textfile collector reads.

https://prometheus.io/docs/instrumenting/exposition_formats
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from .record import ArchiveCounts

_PREFIX = "nats_dissect_archive_"
_TOTALS = {
    "batches": "Batches in the archive.",
    "files": "Capture files that were read.",
    "bytes": "Bytes of these files.",
    "packets": "Packets that were read.",
    "dropped_by_capture": "Packets that the capture program missed, by its own count.",
    "damaged_files": "Files that are cut short or damaged; what comes before the damage is in the archive.",
    "refused_files": "Files that are no captures.",
    "lost_files": "Files that were gone, or could not be opened, when they were to be read.",
    "late_files": "Files that came after later ones; connections do not go on into them.",
    "grown_files": "Times that a file grew after it was read.",
    "expired_files": "Files of the archive that --keep has removed.",
}


def metrics_text(counts: ArchiveCounts, lag_ns: Mapping[str, int], newest_ns: int | None) -> str:
    """The counters. `lag_ns` is by source, `newest_ns` is when the newest file that was read was changed."""
    return "".join(f"{line}\n" for line in _lines(counts, lag_ns, newest_ns))


def _lines(
    counts: ArchiveCounts, lag_ns: Mapping[str, int], newest_ns: int | None
) -> Iterator[str]:
    for name, meaning in _TOTALS.items():
        yield from _head(f"{name}_total", "counter", meaning)
        yield f"{_PREFIX}{name}_total {counts.totals[name]}"
    yield from _head(
        "undecoded_packets_total", "counter", "Packets without a TCP header that could be read."
    )
    for reason, number in sorted(counts.undecoded.items()):
        yield f'{_PREFIX}undecoded_packets_total{{reason="{_escaped(reason)}"}} {number}'
    yield from _head("rows_total", "counter", "Rows that were added.")
    for table, number in sorted(counts.rows.items()):
        yield f'{_PREFIX}rows_total{{table="{table}"}} {number}'
    yield from _head(
        "lag_seconds", "gauge", "How far the archive is behind the newest file of a source."
    )
    for source, lag in sorted(lag_ns.items()):
        yield f'{_PREFIX}lag_seconds{{source="{_escaped(source)}"}} {lag / 1e9:.3f}'
    if newest_ns is not None:
        yield from _head(
            "newest_file_seconds", "gauge", "When the newest file that was read was changed."
        )
        yield f"{_PREFIX}newest_file_seconds {newest_ns / 1e9:.3f}"


def _head(name: str, kind: str, meaning: str) -> Iterator[str]:
    yield f"# HELP {_PREFIX}{name} {meaning}"
    yield f"# TYPE {_PREFIX}{name} {kind}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def write_metrics(path: str, text: str) -> None:
    """Replaces the file as a whole. Raises OSError."""
    beside = f"{path}.{os.getpid()}"  # the collector reads names that end with .prom
    with open(beside, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    os.replace(beside, path)
