"""The counters of an archive can be read by Prometheus, and the dashboard for Grafana shows them."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

from dissect.nats.archive.metrics import metrics_text, write_metrics
from dissect.nats.archive.record import ArchiveCounts

from tests.support.paths import ROOT
from tests.support.requirements import missing

try:
    from prometheus_client import parser
except ImportError as lack:
    missing("prometheus_client", str(lack))

DASHBOARD = ROOT / "samples" / "grafana" / "nats-dissect-archive.json"


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def queries() -> list[str]:
    return [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]


def test_counters_and_gauges_have_names_and_labels() -> None:
    counts = ArchiveCounts(Counter(packets=7, bytes=900), Counter(udp=2), Counter(frames=5))
    text = metrics_text(counts, {'/a "b"\\c\n': 1_500_000_000}, 3_000_000_000)
    found = {
        (sample.name.removeprefix("nats_dissect_archive_"), *sample.labels.values()): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["packets_total",] == 7 and found["bytes_total",] == 900
    assert found["damaged_files_total",] == 0
    assert found["undecoded_packets_total", "udp"] == 2 and found["rows_total", "frames"] == 5
    assert found["lag_seconds", '/a "b"\\c\n'] == 1.5 and found["newest_file_seconds",] == 3
    kinds = {family.name: family.type for family in parser.text_string_to_metric_families(text)}
    assert kinds["nats_dissect_archive_packets"] == "counter"
    assert kinds["nats_dissect_archive_lag_seconds"] == "gauge"


def test_nothing_was_read_yet() -> None:
    assert "newest_file_seconds" not in metrics_text(ArchiveCounts(), {}, None)


def test_the_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "archive.prom"
    for text in ("longer than the next\n", "next\n"):
        write_metrics(str(path), text)
        assert path.read_text() == text and [*tmp_path.iterdir()] == [path]


def test_the_dashboard_shows_every_counter_and_no_other() -> None:
    counts = ArchiveCounts(Counter(), Counter(udp=1), Counter(frames=1))
    families = parser.text_string_to_metric_families(metrics_text(counts, {"/captures": 1}, 1))
    exported = {sample.name: set(sample.labels) for one in families for sample in one.samples}
    assert set(re.findall(r"nats_dissect_archive_\w+", " ".join(queries()))) == set(exported)
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            labels = {*re.findall(r"{{(\w+)}}", target["legendFormat"])}
            names = re.findall(r"nats_dissect_archive_\w+", target["expr"])
            assert all(labels <= exported[name] for name in names), panel["title"]


def test_the_dashboard_is_one_of_grafana() -> None:
    board = dashboard()
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= set(board)
    variables = {one["name"] for one in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", DASHBOARD.read_text()))
    assert used - {"__range", "__rate_interval"} == variables == {"datasource", "instance"}
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert {"type", "title", "description", "datasource", "fieldConfig", "options"} <= set(
            panel
        )
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below
