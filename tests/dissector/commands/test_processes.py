"""The number of processes of a command: what the user says, or what is faster."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli
from dissect.nats.commands import processes as chosen
from dissect.nats.commands.command_options import CommandOptions
from dissect.nats.commands.processes import processes, processes_for_rows
from dissect.nats.errors import MissingLibrary
from dissect.nats.kernel.load import VARIABLE
from dissect.nats.output.formats import FORMATS
from dissect.nats.output.writer import Layout, OutputFormat

from tests.support.paths import CAPTURES
from tests.support.requirements import missing

pytestmark = pytest.mark.usefixtures("worker_processes")

CORE = str(CAPTURES / "core-2.15.1.pcap")
ALL = CommandOptions(captures=(CORE,))


@pytest.fixture(autouse=True)
def _three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen, "cores", lambda: 3)
    monkeypatch.setattr(chosen, "LARGE_BYTES", Path(CORE).stat().st_size)


def form(name: str = "jsonl", table: str = "frames") -> OutputFormat:
    try:
        return FORMATS[name].table(table, Layout())
    except MissingLibrary as lack:
        missing("pyarrow", str(lack))


def test_the_user_says_how_many() -> None:
    assert [processes(replace(ALL, jobs=jobs)) for jobs in (None, 0, 1, 5)] == [1, 3, 1, 5]
    for jobs, expected in ((0, 3), (1, 1), (5, 5)):
        assert processes_for_rows("frames", form(), replace(ALL, jobs=jobs)) == expected


def test_several_share_a_large_capture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert processes_for_rows("frames", form(), ALL) == 3
    assert processes_for_rows("sessions", form("parquet", "sessions"), ALL) == 3
    (tmp_path / "a.pcap").write_bytes(Path(CORE).read_bytes())
    for place in (tmp_path, tmp_path / "*.pcap"):
        assert processes_for_rows("frames", form(), replace(ALL, captures=(str(place),))) == 3
    monkeypatch.setattr(chosen, "cores", lambda: 64)
    assert processes_for_rows("frames", form(), ALL) == 4


def test_one_reads_a_small_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen, "LARGE_BYTES", Path(CORE).stat().st_size + 1)
    assert processes_for_rows("frames", form(), ALL) == 1
    assert processes_for_rows("frames", form(), replace(ALL, captures=(CORE, CORE))) == 1


@pytest.mark.parametrize(
    "options",
    [
        replace(ALL, limit=3),
        replace(ALL, dissecting={"separate": True}),
        replace(ALL, captures=("-",)),
        replace(ALL, captures=("there is none",)),
    ],
    ids=["limit", "separate", "standard input", "missing"],
)
def test_one_reads_where_several_would_not_be_faster(options: CommandOptions) -> None:
    assert processes_for_rows("frames", form(), options) == 1


def test_one_makes_rows_that_need_all_sessions() -> None:
    assert processes_for_rows("servers", form(table="servers"), ALL) == 1
    assert processes_for_rows("frames", form(), replace(ALL, where="op = 'PUB'")) == 3


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_one_reads_what_cannot_be_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    captures = CORE, str(tmp_path / "pipe")
    assert processes_for_rows("frames", form(), replace(ALL, captures=captures)) == 1


def test_the_rows_of_a_large_capture_are_the_same() -> None:
    usual, one = (CliRunner().invoke(cli, ["sessions", CORE, *jobs]) for jobs in ([], ["--jobs=1"]))
    assert usual.exit_code == 0 and usual.stdout == one.stdout and usual.stderr == one.stderr


def test_with_the_kernel_several_share_only_larger_captures_and_no_frames(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chosen, "LOADED_AFTER", 1)
    monkeypatch.setattr(chosen, "_WORTH_SAYING", 1)
    monkeypatch.setenv(VARIABLE, "")
    assert processes_for_rows("sessions", form(table="sessions"), replace(ALL, jobs=5)) == 1
    assert processes_for_rows("frames", form("parquet"), replace(ALL, jobs=5)) == 1
    assert processes_for_rows("frames", form(), ALL) == 3
    assert processes_for_rows("frames", form(), replace(ALL, jobs=2)) == 1
    monkeypatch.setattr(chosen, "LARGE_WITH_KERNEL", Path(CORE).stat().st_size)
    assert processes_for_rows("sessions", form(table="sessions"), replace(ALL, jobs=5)) == 5
    assert processes_for_rows("sessions", form(table="sessions"), ALL) == 3
    assert processes_for_rows("frames", form("parquet"), ALL) == 1
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(chosen, "lack", lambda: "numba is not installed")
    assert processes_for_rows("sessions", form(table="sessions"), ALL) == 3
    assert "numba is not installed" in capsys.readouterr().err
    monkeypatch.setenv(VARIABLE, "off")
    assert processes_for_rows("sessions", form(table="sessions"), ALL) == 3
    assert capsys.readouterr().err == ""
