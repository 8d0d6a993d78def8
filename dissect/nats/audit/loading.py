"""Makes the rows that rules need from captures, in one process or several.

Their order does not matter here, because the findings are sorted later. So no rows are held back to wait for
late ones, which would take hundreds of megabytes for all tables together. With several processes, tables of
layers `across` sessions are made by one process, in a separate pass over the captures.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from dataclasses import replace

from ..capture import CaptureReport
from ..options import Options
from ..output.arrow.records import schema
from ..output.duckdb import Columns, Loadable
from ..parallel.pool import shared_records
from ..pipeline import released, timelines
from ..schema.records import Record
from ..tables import TABLES


def loaded_records(
    paths: Sequence[str],
    tables: Collection[str],
    options: Options,
    report: CaptureReport,
    jobs: int = 1,
    columns: Columns | None = None,
) -> Generator[Loadable, None, None]:
    """The records of these tables as they become complete, made by `jobs` processes. With `columns`, frames
    may come as blocks or as record batches with these columns. Raises CaptureError."""
    across = [table for table in tables if (layer := TABLES[table].layer) and layer.across]
    own = [table for table in tables if table not in across]
    if jobs == 1 or not own:
        yield from _completed(paths, tables, options, report, columns is not None)
        return
    packed = None
    if columns is not None and "frames" in own:
        own = ["frames", *(table for table in own if table != "frames")]
        packed = columns.get("frames", schema("frames").names)
    for timeline in timelines(paths, options, report):
        alone = CaptureReport() if options.separate else report
        dissection = replace(options, separate=False)
        with closing(shared_records(timeline, own, dissection, jobs, alone, packed)) as shared:
            yield from shared
        if options.separate:
            report.files += alone.files
            report.protocols += alone.protocols
            report.tcp_bytes += alone.tcp_bytes
    if across:
        yield from _completed(paths, across, options, CaptureReport())


def _completed(
    paths: Sequence[str],
    tables: Collection[str],
    options: Options,
    report: CaptureReport,
    blocks: bool = False,
) -> Generator[Record, None, None]:
    for timeline in timelines(paths, options, report):
        with closing(
            released(timeline, tables, options, report, together=True, blocks=blocks)
        ) as source:
            for rows in source:
                yield from rows.records
