"""The one place that wires the stages: all its doors lead to the same rows."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from itertools import islice

import pytest

from dissect.nats import CaptureReport, Options
from dissect.nats.capture.time_range import TimeBound
from dissect.nats.engine.dissection import Dissection
from dissect.nats.engine.session_tables import ReleasedRows
from dissect.nats.schema.records import FrameRecord, Record
from dissect.nats.tables import FROM_ENGINE
from dissect.nats.types import EARLIEST_NS, TICK_NS, Tick

from tests.support.paths import CAPTURES, ROOT
from tests.support.segments import segments

NAMES = ["core-2.15.1.pcap", "tls-2.15.1.pcap", "midstream.pcap"]
TABLES = [*FROM_ENGINE, "servers"]  # with a layer across sessions, whose rows come last


def records(source: Iterable[ReleasedRows]) -> list[Record]:
    return [record for rows in source for record in rows.records]


@pytest.mark.parametrize("name", NAMES)
def test_at_once_in_steps_and_by_events_are_the_same(name: str) -> None:
    path = str(CAPTURES / name)
    whole = Dissection(TABLES, Options())
    expected = records(whole.read(whole.packets([path], CaptureReport())))
    steps = Dissection(TABLES, Options())
    found = [*records(steps.feed(segments([path]))), *records(steps.finish())]
    steps.close()
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    events = Dissection(TABLES, Options())
    by_events = events.tables(events.events(events.packets([path], CaptureReport())))
    assert records(by_events) == expected
    assert {type(record) for record in expected} >= {FrameRecord}


def test_time_range_progress_and_protocols() -> None:
    path, protocols, seen = str(CAPTURES / NAMES[0]), Counter[str](), list[int]()
    options = Options(from_time=TimeBound(10**9, elapsed=True))
    dissection = Dissection(["frames"], options, protocols=protocols)
    report = CaptureReport()
    rows = records(dissection.read(dissection.packets([path], report), on_progress=seen.append))
    first_ns = report.files[0].first_ns
    assert first_ns and rows
    assert all(isinstance(row, FrameRecord) and row.ts_ns >= first_ns + 10**9 for row in rows)
    assert 0 < seen[-1] < report.files[0].packets and protocols["nats"]


def test_the_earliest_time_is_none_that_passed() -> None:
    options = Options(idle_seconds=60)
    dissection = Dissection(["flows"], options)
    first = list(islice(segments([str(CAPTURES / NAMES[0])]), 5))
    assert not records(dissection.feed(first))
    assert not records(dissection.pass_time(EARLIEST_NS))
    idle = Tick(first[-1].ts_ns + options.flow_limits.idle_ns + 2 * TICK_NS)
    assert records(dissection.feed([idle]))  # not far ahead of the packets before


def test_nobody_else_wires_the_stages() -> None:
    made = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "dissect").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("ConnectionTable", "TableBuilder")
    }
    assert made == {"dissect/nats/engine/dissection.py"}
