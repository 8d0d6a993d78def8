"""Figures for notebooks: the same from records, Arrow, pandas and Spark; and the sample notebook runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from dissect.nats import plots
from dissect.nats.output.arrow.records import batch
from dissect.nats.schema.records import FrameRecord

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES, ROOT

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from pyspark.sql import SparkSession

    from dissect.nats.schema.records import Record

SESSION, NUMBER = "60985db70b0da478", 6  # in the first of these captures
NAMES = ("gateway-2.15.1.pcap", "orders-2.15.1.pcap", "slow-2.15.1.pcap")


def ladder(frames: Iterable[Record] | pa.Table) -> Figure:
    """The one of the session that comes first in these captures."""
    return plots.ladder(frames, SESSION)


def message_path(paths: Iterable[Record] | pa.Table) -> Figure:
    return plots.message_path(paths, f"{SESSION}:{NUMBER}")


FIGURES: list[tuple[Callable[..., Figure], str]] = [
    (plots.traffic, "frames"),
    (plots.subjects, "frames"),
    (plots.latency, "requests"),
    (plots.latency_over_time, "requests"),
    (plots.talkers, "sessions"),
    (plots.topology, "sessions"),
    (plots.stopped, "flows"),
    (plots.lag, "deliveries"),
    (ladder, "frames"),
    (message_path, "paths"),
]


@pytest.mark.parametrize("figure, table", FIGURES, ids=lambda item: getattr(item, "__name__", item))
def test_every_kind_of_rows_makes_the_same_figure(
    figure: Callable[..., Figure], table: str
) -> None:
    records = rows([CAPTURES / name for name in NAMES], [table])
    arrow = pa.Table.from_batches([batch(table, records)])
    drawn = figure(records).to_json()
    assert len(figure(records).data) > 0
    assert figure(arrow).to_json() == drawn
    assert figure(arrow.to_pandas()).to_json() == drawn


def test_columns_that_are_missing_have_no_values() -> None:
    """And further columns do not matter."""
    records = rows([CAPTURES / NAMES[0]], ["frames"])
    arrow = pa.Table.from_batches([batch("frames", records)])
    narrow = arrow.drop_columns(["header_bytes"]).append_column("x", arrow["number"])
    without = [replace(row, header_bytes=None) for row in records if isinstance(row, FrameRecord)]
    drawn = plots.traffic(narrow, plots.BYTES).to_json()
    assert drawn == plots.traffic(without, plots.BYTES).to_json()
    assert drawn != plots.traffic(records, plots.BYTES).to_json()


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_spark_draws_the_same_figures(spark: SparkSession, tmp_path: Path) -> None:
    for figure, table in FIGURES:
        records = rows([CAPTURES / name for name in NAMES], [table])
        path = str(tmp_path / f"{table}.parquet")
        parquet.write_table(pa.Table.from_batches([batch(table, records)]), path)
        made = spark.read.parquet(path)
        assert figure(made).to_json() == figure(records).to_json(), figure
    # Unlike `catalog.listTables`, this reads no view: those of other tests may have lost their files.
    views = spark.sql("SHOW VIEWS").collect()
    assert not [view for view in views if view.viewName.startswith("nats_")]


def test_the_sample_notebook_runs(tmp_path: Path) -> None:
    done = tmp_path / "done.ipynb"
    code = (
        "import sys, nbclient, nbformat\n"
        "book = nbformat.read(sys.argv[1], 4)\n"
        "nbclient.NotebookClient(book, timeout=50, kernel_name='python3').execute()\n"
        "nbformat.write(book, sys.argv[2])\n"
    )
    sample = ROOT / "samples" / "plots.ipynb"
    subprocess.run([sys.executable, "-c", code, sample, done], check=True, cwd=ROOT / "samples")
    cells = json.loads(done.read_text(encoding="utf-8"))["cells"]
    shown = [
        output["data"].get("application/vnd.plotly.v1+json")
        for cell in cells
        for output in cell.get("outputs", ())
        if "data" in output
    ]
    assert len(shown) == sum(
        "plots." in "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"
    )
    assert all(figure["data"] for figure in shown)
    assert not any(cell.get("outputs") for cell in json.loads(sample.read_text())["cells"])


def test_what_has_no_rows_of_the_table_is_refused() -> None:
    path = str(CAPTURES / NAMES[0])
    with pytest.raises(TypeError, match="^frames must be rows, not the name of a file: frames"):
        plots.traffic(path)  # type: ignore[arg-type]  # a wrong call
    with pytest.raises(TypeError, match="^rows of frames are FrameRecord, not SessionRecord$"):
        plots.traffic(rows([CAPTURES / NAMES[0]], ["sessions"]))


def test_an_unknown_measure_is_refused() -> None:
    with pytest.raises(ValueError, match="^measure must be 'messages' or 'bytes', not 'packets'$"):
        plots.traffic([], "packets")
