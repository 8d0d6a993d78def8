"""Another sink than a folder is one class: a job needs no more of it than the protocol says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats.errors import SparkError
from dissect.nats.output.day_files import WrittenFile
from dissect.nats.schema.records import Record
from dissect.nats.spark.api import dissect
from dissect.nats.spark.options.job_options import JobOptions
from dissect.nats.spark.sink import NewWriter

from tests.support.partitioned import in_one
from tests.support.paths import CAPTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SAMPLE = str(CAPTURES / "core-2.15.1.pcap")


class CountingWriter:
    """Writes how many rows there are."""

    def __init__(self, folder: str, number: int, tables: Iterable[str]) -> None:
        self.written: list[WrittenFile] = []
        self._folder, self._number = folder, number
        self._rows: Counter[str] = Counter()

    def add(self, table: str, records: Sequence[Record]) -> None:
        self._rows[table] += len(records)

    def close(self) -> None:
        for table, rows in self._rows.items():
            path = Path(self._folder) / f"{table}-{self._number}"
            path.write_text(str(rows))
            self.written.append(WrittenFile(table, path.name, str(path), rows))


class CountingSink:
    """Keeps the number of rows of each table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: list[str] = []
        self.rows: Counter[str] = Counter()

    def check(self) -> None:
        self.steps.append("check")

    def begin(self, run: str) -> str:
        self.steps.append("begin")
        return run

    def writer(self, run: str) -> NewWriter:
        return partial(CountingWriter, str(self.folder))

    def discard(self, run: str) -> None:
        self.steps.append("discard")

    def publish(
        self,
        run: str,
        tables: Iterable[str],
        written: Iterable[WrittenFile],
        mark: Mapping[str, object],
    ) -> None:
        self.steps.append("publish")
        for one in written:
            self.rows[one.table] += int(Path(one.path).read_text())


def test_a_job_writes_to_any_sink(spark: SparkSession, tmp_path: Path) -> None:
    sink = CountingSink(tmp_path)
    tables = ["frames", "sessions"]
    summary = dissect(spark, [SAMPLE], tables, JobOptions(chunk_size=16384), sink)
    assert sink.steps == ["check", "begin", "publish"]
    assert sink.rows == summary.rows
    assert sink.rows["frames"] == len(in_one([SAMPLE], ["frames"]))


def test_a_run_that_fails_is_discarded(spark: SparkSession, tmp_path: Path) -> None:
    class FullSink(CountingSink):
        def publish(self, *_: object) -> None:  # type: ignore[override]  # raises at once
            raise SparkError("it is full")

    sink = FullSink(tmp_path)
    with pytest.raises(SparkError, match="it is full"):
        dissect(spark, [SAMPLE], ["sessions"], JobOptions(), sink)
    assert sink.steps == ["check", "begin", "discard"]
