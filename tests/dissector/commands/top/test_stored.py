"""`top --tables` shows what `top --once` shows of the captures from which the tables were made."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli
from dissect.nats.errors import MissingLibrary
from dissect.nats.output.arrow.types import pyarrow

from tests.support.archives import parts_of, put
from tests.support.requirements import missing

try:
    import duckdb  # noqa: F401  # only to know that it is there

    pyarrow()
except (ImportError, MissingLibrary) as lack:
    missing("duckdb and pyarrow", str(lack))


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def filled(root: Path, name: str, count: int) -> tuple[str, str]:
    """A folder with a sample capture in parts, and an archive of it."""
    put(root / "captures", parts_of(name, count))
    captures, out = str(root / "captures"), str(root / "out")
    run("archive", captures, "--out", out, "--finish")
    return captures, out


@pytest.mark.parametrize("name", ["core-2.15.1", "orders-2.15.1", "cluster-2.15.1"])
@pytest.mark.parametrize("format", ["text", "jsonl"])
def test_tables_show_what_captures_show(name: str, format: str, tmp_path: Path) -> None:
    captures, out = filled(tmp_path, name, 3)
    shown = run("top", "--tables", out, "--format", format)
    assert shown == run("top", "--once", captures, "--format", format)
    assert len(shown.splitlines()) > 20


def test_a_range_of_time_and_connections_that_are_open(tmp_path: Path) -> None:
    put(tmp_path / "captures", parts_of("core-2.15.1", 2)[:1])
    out = str(tmp_path / "out")
    run("archive", str(tmp_path / "captures"), "--out", out, "--once", "--settle", "0")
    assert " open, " in run("top", "--tables", out, "--view", "connections")
    assert '"originator":"?"' in run("top", "--tables", out, "--format", "jsonl")
    assert run("top", "--tables", out, "--format", "jsonl", "--until", "2020-01-01") == ""


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["--tables", "none"], "none: no folder with tables"),
        (["--tables", ".", "capture.pcap"], "top takes captures, --interface with"),
        (["--tables", ".", "--kind", "route"], "--kind does not go with --tables"),
        (["--tables", ".", "--interval", "2"], "--interval does not go with tables"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(cli, ["top", *arguments])
    assert result.exit_code == 2 and text in result.output and result.output.count("\n") == 1
