"""Findings in the formats of `nats-dissect audit`.

The table formats (JSON lines, CSV, Parquet) have one row per finding. In JSON lines `fields` is an object,
and absent values are left out. Each format takes findings in order and keeps only a few of them in memory.
Every command imports this module for its help text, so a format's code is imported when the format is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TextIO

from ...number_formats import iso_time
from ...output.arrow.types import pyarrow
from ...output.formats import FORMATS
from ...output.json_lines import json_text
from ..findings.finding import FIELDS, Finding

if TYPE_CHECKING:
    import pyarrow as pa

    from .report import Report

_ROWS = 1024


class FindingFormat(NamedTuple):
    """One format. `binary` formats are not written to a terminal."""

    meaning: str
    write: Callable[[TextIO, Report], None]
    binary: bool = False


def column_names() -> tuple[str, ...]:
    """The columns of findings, `time` after `ts_ns`."""
    return tuple(
        name for field in FIELDS for name in ([field, "time"] if field == "ts_ns" else [field])
    )


def _text(output: TextIO, report: Report) -> None:
    if report.layout.columns is not None:
        _rows(output, report, "text")
        return
    from .text import paragraphs

    for line in paragraphs(report.findings, report.counts, report.layout.terminal):
        output.write(line)


def _json_lines(output: TextIO, report: Report) -> None:
    names = report.layout.columns or column_names()
    for finding in report.findings:
        values = {name: _json_value(finding, name) for name in names}
        present = {name: value for name, value in values.items() if value not in (None, [])}
        output.write(json_text(present) + "\n")


def _json_value(finding: Finding, name: str) -> object:
    if name == "time":
        return None if finding.ts_ns is None else iso_time(finding.ts_ns)
    return finding.values if name == "fields" else getattr(finding, name)


def _rows(output: TextIO, report: Report, name: str) -> None:
    """Writes findings in a table format."""
    from ..findings.store import batch

    columns = list(report.layout.columns or column_names())
    batches = (_chosen_columns(batch(some), columns, name) for some in _some(report.findings))
    first = next(batches, None) or _chosen_columns(batch([]), columns, name)
    form = FORMATS[name].query(first.schema, report.layout)
    writer = form.writer(output)
    writer.write(form.render(first))
    for part in batches:
        writer.write(form.render(part))
    writer.close()


def _some(findings: Iterable[Finding]) -> Iterator[list[Finding]]:
    source = iter(findings)
    while some := list(islice(source, _ROWS)):
        yield some


def _chosen_columns(rows: pa.RecordBatch, columns: list[str], name: str) -> pa.RecordBatch:
    """The chosen columns. Times are text, except in Parquet."""
    if name != "parquet" and "time" in columns:
        times = [
            None if ts_ns is None else iso_time(ts_ns) for ts_ns in rows.column("ts_ns").to_pylist()
        ]
        place = rows.schema.get_field_index("time")
        rows = rows.set_column(place, "time", pyarrow().array(times, pyarrow().string()))
    return rows.select(columns)


def _sarif(output: TextIO, report: Report) -> None:
    from .sarif import write_sarif

    write_sarif(output, report)


def _ocsf(output: TextIO, report: Report) -> None:
    from .ocsf import write_ocsf

    write_ocsf(output, report)


def _ecs(output: TextIO, report: Report) -> None:
    from .ecs import write_ecs

    write_ecs(output, report)


OUTPUTS = {
    "text": FindingFormat("for people", _text),
    "jsonl": FindingFormat(FORMATS["jsonl"].meaning, _json_lines),
    "csv": FindingFormat(
        FORMATS["csv"].meaning, lambda output, report: _rows(output, report, "csv")
    ),
    "parquet": FindingFormat(
        FORMATS["parquet"].meaning, lambda output, report: _rows(output, report, "parquet"), True
    ),
    "sarif": FindingFormat("SARIF 2.1.0, for code scanning", _sarif),
    "ocsf": FindingFormat("OCSF detection findings", _ocsf),
    "ecs": FindingFormat("alerts in the Elastic Common Schema", _ecs),
}
"""The formats by name, in the order in which the help lists them."""
