"""Archives for tests: captures in many small files, as a sensor makes them, and the rows of an archive."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from dissect.nats import Options
from dissect.nats.archive.arguments import ARCHIVED
from dissect.nats.output.arrow.records import batch
from dissect.nats.pipeline import records
from dissect.nats.tables import TABLE_OF, TABLES

from tests.support.damage import pcap_bytes, read_pcap
from tests.support.paths import CAPTURES

LONG_AGO = (1_000_000_000, 1_000_000_000)

Rows = dict[str, list[str]]


def parts_of(name: str, count: int) -> list[bytes]:
    """A sample in files of equal numbers of packets."""
    whole = read_pcap((CAPTURES / f"{name}.pcap").read_bytes())
    size = -(-len(whole.records) // count)
    return [
        pcap_bytes(whole.with_records(whole.records[at : at + size]))
        for at in range(0, len(whole.records), size)
    ]


def put(folder: Path, parts: Iterable[bytes], begin: int = 0) -> list[Path]:
    """Writes captures that nobody has written to for long."""
    folder.mkdir(exist_ok=True)
    paths = []
    for number, content in enumerate(parts, begin):
        path = folder / f"part{number:03}.pcap"
        path.with_suffix(".new").write_bytes(content)
        os.utime(path.with_suffix(".new"), LONG_AGO)
        path.with_suffix(".new").replace(path)
        paths.append(path)
    return paths


def one_pass(paths: Sequence[Path], tables: Sequence[str] = ARCHIVED) -> Rows:
    """The rows of one process that reads all captures at once, sorted, by table."""
    found: dict[str, list[str]] = {table: [] for table in tables}
    for record in records(list(map(str, paths)), tables, Options()):
        table = TABLE_OF[type(record)].name
        found[table] += map(repr, batch(table, [record]).to_pylist())
    return {table: sorted(rows) for table, rows in found.items() if rows}


def archived(out: Path, tables: Sequence[str] = ARCHIVED) -> Rows:
    """The rows of an archive, sorted, by table. The folder and the name of each file fit its rows."""
    from pyarrow import parquet

    found = {}
    for table in tables:
        rows = []
        for path in (out / table).rglob("*.parquet"):
            content = parquet.ParquetFile(path).read()
            rows += list(map(repr, content.to_pylist()))
            time = TABLES[table].time
            for ts_ns in content.column(time).to_pylist():
                assert hour_of(ts_ns) == f"{path.parent.name}/{path.name[:2]}"
        if rows:
            found[table] = sorted(rows)
    return found


def hour_of(ts_ns: int | None) -> str:
    """The folder and the beginning of the file name for rows of this time."""
    if ts_ns is None:
        return "date=__HIVE_DEFAULT_PARTITION__/00"
    when = datetime.fromtimestamp(ts_ns // 10**9, timezone.utc)
    return f"date={when:%Y-%m-%d}/{when:%H}"
