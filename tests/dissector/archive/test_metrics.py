"""The counters of an archive can be read by Prometheus."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from dissect.nats.archive.metrics import metrics_text, write_metrics
from dissect.nats.archive.record import ArchiveCounts

from tests.support.requirements import missing

try:
    from prometheus_client import parser
except ImportError as lack:
    missing("prometheus_client", str(lack))


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
