"""Rules and reports count a connection once that several sessions show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats.audit.copies import counted_once, with_copies
from dissect.nats.cli import cli

from tests.support.pcapwriter import Record
from tests.support.sightings import capture_of, proxied, translated


def audited(*arguments: str) -> tuple[list[tuple[object, ...]], str]:
    done = CliRunner().invoke(cli, ["audit", "--format", "jsonl", *arguments])
    assert done.exit_code == 0, done.output
    rows = map(json.loads, filter(lambda line: line.startswith("{"), done.stdout.splitlines()))
    return sorted((row["rule"], row["session"], row["count"]) for row in rows), done.stderr


def test_what_tells_which_rows_are_left_out() -> None:
    assert counted_once(["frames", "flows", "servers", "sessions"]) == ["frames", "sessions"]
    assert counted_once(["frames"]) == []
    columns = {"frames": ["op"], "sessions": ["kind", "session"], "flows": ["path"]}
    assert with_copies(columns) == {
        "frames": ["op", "session"],
        "sessions": ["kind", "session", "copy_of"],
        "flows": ["path"],
    }


@pytest.mark.usefixtures("worker_processes")
@pytest.mark.parametrize("places", [translated, proxied])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_connection_that_is_seen_twice_has_its_findings_once(
    tmp_path: Path, places: Callable[[], list[list[Record]]], jobs: str
) -> None:
    once, text = audited(str(capture_of(tmp_path / "seen.pcap", places()[:1])), "--jobs", jobs)
    assert once and "seen twice" not in text
    twice, text = audited(str(capture_of(tmp_path / "seen.pcap", places())), "--jobs", jobs)
    assert twice == once
    assert "nats-dissect: 1 session seen twice, and counted once\n" in text


def test_over_tables_it_is_the_same(tmp_path: Path) -> None:
    capture = str(capture_of(tmp_path / "seen.pcap", proxied()))
    out = tmp_path / "tables"
    arguments = ["archive", "--once", "--finish", "--settle", "0", "--out", str(out), capture]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    expected, _ = audited(capture)
    found, text = audited("--tables", str(out))
    assert found == expected and "1 session seen twice" in text


def test_a_report_counts_it_once(tmp_path: Path) -> None:
    made = tmp_path / "report.html"
    capture = str(capture_of(tmp_path / "seen.pcap", proxied()))
    done = CliRunner().invoke(cli, ["report", "-o", str(made), capture])
    assert done.exit_code == 0, done.output
    assert "1 session seen twice, and counted once\n" in done.stderr
    assert "1 session, 18 frames" in done.stderr
    assert "1 session seen twice, and counted once: before" in made.read_text()
