"""`nats-dissect audit`, over the sample captures and over their tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dissect.nats.cli import cli

from tests.support.audit import detection_text
from tests.support.paths import CAPTURES

AUTH = str(CAPTURES / "auth-2.15.1.pcap")


def audit(*args: str) -> Result:
    return CliRunner().invoke(cli, ["audit", *args])


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A rule that finds every CONNECT."""
    path = tmp_path_factory.mktemp("rules") / "mine.yml"
    text = detection_text("  selection: {op: CONNECT}", more="level: low\nfields: [json]\n")
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_findings_and_their_number() -> None:
    result = audit(AUTH)
    assert result.exit_code == 1
    assert result.stdout.startswith("HIGH ")
    assert "password-in-clear" in result.stdout
    assert " findings (" in result.stderr and " ran" in result.stderr


def test_the_status_depends_on_the_level(mine: str) -> None:
    assert audit(AUTH, "--fail-on", "never").exit_code == 0
    assert audit(AUTH, "--fail-on", "critical").exit_code == 0
    assert audit(AUTH, "--fail-on", "low", "--rules", mine).exit_code == 1


def test_secrets_are_masked_as_in_the_tables(mine: str) -> None:
    result = audit(AUTH, "--rules", mine, "--format", "jsonl")
    found = [one for one in map(json.loads, result.stdout.splitlines()) if one["rule"] == "rule-1"]
    assert found
    assert '"pass":"***"' in json.dumps([one["fields"] for one in found]).replace("\\", "")
    assert "secret" not in result.stdout


def test_tables_give_the_findings_of_their_capture(tmp_path: Path) -> None:
    for table in ("frames", "sessions"):
        (tmp_path / table).mkdir()
        path = str(tmp_path / table / "part-0.parquet")
        made = CliRunner().invoke(cli, [table, AUTH, "--format", "parquet", "-o", path])
        assert made.exit_code == 0
    own = audit(AUTH, "--format", "jsonl").stdout
    of_tables = audit("--tables", str(tmp_path), "--format", "jsonl")
    assert own and set(of_tables.stdout.splitlines()) <= set(own.splitlines())


def test_rules_without_their_tables_are_named(tmp_path: Path) -> None:
    (tmp_path / "frames").mkdir()
    result = audit("--tables", str(tmp_path))
    assert result.exit_code == 0
    assert "rule password-in-clear did not run: there is no table sessions" in result.stderr


def test_rules_are_listed_and_explained(mine: str) -> None:
    listed = audit("--list", "--rules", mine)
    assert listed.exit_code == 0
    assert "low           rule-1" in listed.stdout
    assert listed.stdout.index("high ") < listed.stdout.index("low ")
    explained = audit("--explain", "password-in-clear")
    assert explained.exit_code == 0
    assert "-- password-in-clear: " in explained.stdout and "FROM sessions AS r" in explained.stdout


def test_a_file_that_is_no_capture(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no capture", encoding="utf-8")
    result = audit(str(tmp_path / "x"))
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


def test_output_to_a_file_and_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "findings.jsonl"
    result = audit(AUTH, "--format", "jsonl", "--limit", "1", "-o", str(path))
    assert result.exit_code == 1
    assert path.read_text(encoding="utf-8").count("\n") == 1
