"""An archive has the rows of one pass, whatever happens to the process that fills it.

Processes that are killed are in test_command.py; here a write or a rename fails instead, each one in turn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dissect.nats import sessions
from dissect.nats.archive.archiving import Archiving
from dissect.nats.archive.arguments import ArchiveOptions
from dissect.nats.archive.folder import ArchiveFolder
from dissect.nats.errors import MissingLibrary
from dissect.nats.output.arrow.types import pyarrow
from dissect.nats.output.sink import Fault

from tests.support.archives import LONG_AGO, archived, one_pass, parts_of, put
from tests.support.damage import read_pcap
from tests.support.requirements import missing
from tests.support.sightings import capture_of, proxied

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))

TABLES = ("frames", "sessions", "requests", "flows")


class Killed(BaseException):
    """The process ends here."""


def fill(captures: Path, out: Path, **options: Any) -> Archiving:
    options = {"tables": TABLES, "settle": 0.0, "once": True, **options}
    wanted = ArchiveOptions(captures=(str(captures),), out=str(out), **options)
    with closing(ArchiveFolder(wanted.out)) as folder:
        archiving = Archiving(wanted, folder)
        archiving.run()
    return archiving


def totals(archiving: Archiving) -> dict[str, int]:
    return {name: count for name, count in archiving._record.counts.totals.items() if count}


def packets_in(content: bytes) -> int:
    return len(read_pcap(content).records)


@pytest.mark.parametrize("name", ["core-2.15.1", "orders-2.15.1", "cluster-2.15.1"])
def test_the_rows_of_every_table_are_those_of_one_pass(name: str, tmp_path: Path) -> None:
    parts = parts_of(name, 4)
    paths = put(tmp_path / "captures", parts[:2])
    fill(tmp_path / "captures", tmp_path / "out", tables=ArchiveOptions().tables)
    paths += put(tmp_path / "captures", parts[2:], begin=2)
    fill(tmp_path / "captures", tmp_path / "out", tables=ArchiveOptions().tables, finish=True)
    assert archived(tmp_path / "out") == one_pass(paths)


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, number: int) -> Iterator[list[str]]:
    """A block in which the process ends at a call that changes the disk: before call `number` // 2 if the
    number is odd, or else after it."""
    calls: list[str] = []

    def ending(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **others: Any) -> Any:
            calls.append(name)
            if len(calls) == number // 2 and number % 2:
                raise Killed
            value = call(*arguments, **others)
            if len(calls) == number // 2:
                raise Killed
            return value

        return counted

    with monkeypatch.context() as patch:
        for name in ("fsync", "replace", "unlink"):
            patch.setattr(os, name, ending(name, getattr(os, name)))
        yield calls


def test_a_process_that_ends_at_any_write_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = parts_of("orders-2.15.1", 3)
    captures = tmp_path / "captures"
    expected = one_pass(put(captures, parts), TABLES)
    ended, number = 0, 2
    while True:
        out = tmp_path / f"out{number}"
        with killed_at(monkeypatch, number) as calls:
            try:
                fill(captures, out, finish=True)
            except Killed:
                ended += 1
        if len(calls) < number // 2:
            break
        fill(captures, out, finish=True)
        assert archived(out, TABLES) == expected, f"ended at call {number}: {calls[-3:]}"
        number += 3
    assert ended >= 20


def test_a_file_that_grows_later_is_read_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = parts_of("core-2.15.1", 2)
    (path,) = put(tmp_path / "captures", [first])
    fill(tmp_path / "captures", tmp_path / "out")
    put(tmp_path / "captures", [first + second[24:]])
    archiving = fill(tmp_path / "captures", tmp_path / "out", finish=True)
    assert archived(tmp_path / "out", TABLES) == one_pass([path], TABLES)
    assert (
        f"{path} has grown since it was read; what was added is read now" in capsys.readouterr().err
    )
    counted = totals(archiving)
    assert (counted["files"], counted["grown_files"]) == (1, 1)
    assert counted["bytes"] == path.stat().st_size
    assert counted["packets"] == sum(map(packets_in, (first, second)))


def test_names_that_a_ring_uses_again_are_new_files(tmp_path: Path) -> None:
    first, second = parts_of("core-2.15.1", 2)
    paths = put(tmp_path / "apart", [first, second])
    put(tmp_path / "captures", [first])
    fill(tmp_path / "captures", tmp_path / "out")
    put(tmp_path / "captures", [second])
    os.utime(tmp_path / "captures" / "part000.pcap", (LONG_AGO[0] + 9,) * 2)
    fill(tmp_path / "captures", tmp_path / "out", finish=True)
    rows = archived(tmp_path / "out", ["sessions"])
    expected = one_pass(paths, ["sessions"])
    assert [row.replace("part001", "part000") for row in expected["sessions"]] == rows["sessions"]


def test_damaged_hostile_and_lost_files_are_counted_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = parts_of("core-2.15.1", 3)
    cut = parts[1][:-7]
    paths = put(tmp_path / "captures", [parts[0], cut, parts[2]])
    (tmp_path / "captures" / "notes.txt").write_text(
        "these notes are longer than the header of a pcap"
    )
    os.utime(tmp_path / "captures" / "notes.txt", LONG_AGO)
    archiving = fill(tmp_path / "captures", tmp_path / "out", finish=True)
    counted = totals(archiving)
    assert (counted["files"], counted["damaged_files"], counted["refused_files"]) == (3, 1, 1)
    assert archiving.is_damaged
    said = capsys.readouterr().err
    assert "part001.pcap: the file is cut short" in said and "notes.txt: not a capture" in said
    assert archived(tmp_path / "out", TABLES) == one_pass(paths, TABLES)
    again = fill(tmp_path / "captures", tmp_path / "out")
    assert totals(again) == counted and not again.is_damaged
    assert "notes.txt" not in capsys.readouterr().err


def test_sessions_that_end_in_one_batch_name_each_other(tmp_path: Path) -> None:
    content = capture_of(tmp_path / "seen.pcap", proxied()).read_bytes()
    paths = put(tmp_path / "captures", [content])
    fill(tmp_path / "captures", tmp_path / "out", finish=True)
    assert archived(tmp_path / "out", ["sessions"]) == one_pass(paths, ["sessions"])
    assert any(row.same_as for row in sessions(paths))


def test_what_is_too_old_is_removed_and_everything_is_counted(tmp_path: Path) -> None:
    put(tmp_path / "captures", parts_of("core-2.15.1", 2))
    counters = tmp_path / "archive.prom"
    options = {"metrics": str(counters), "finish": True}
    fill(tmp_path / "captures", tmp_path / "out", **options)
    assert archived(tmp_path / "out", TABLES)
    assert "nats_dissect_archive_files_total 2\n" in counters.read_text()
    (tmp_path / "out" / "frames" / "notes.parquet").write_bytes(b"of somebody else")
    fill(tmp_path / "captures", tmp_path / "out", keep=1, **options)
    left = [path.name for path in (tmp_path / "out").rglob("*.parquet")]
    assert left == ["notes.parquet"]
    assert "nats_dissect_archive_expired_files_total 4\n" in counters.read_text()


def test_two_folders_are_two_timelines(tmp_path: Path) -> None:
    put(tmp_path / "a", parts_of("core-2.15.1", 2))
    put(tmp_path / "b", parts_of("orders-2.15.1", 2))
    options = ArchiveOptions(
        captures=(str(tmp_path / "a"), str(tmp_path / "b")),
        out=str(tmp_path / "out"),
        tables=TABLES,
        finish=True,
    )
    with closing(ArchiveFolder(options.out)) as folder:
        Archiving(options, folder).run()
    expected = [one_pass(sorted((tmp_path / name).iterdir()), TABLES) for name in "ab"]
    assert archived(tmp_path / "out", TABLES) == {
        table: sorted(row for rows in expected for row in rows[table]) for table in TABLES
    }


def test_other_options_wait_until_no_connection_is_open(tmp_path: Path) -> None:
    parts = parts_of("core-2.15.1", 2)
    put(tmp_path / "captures", parts[:1])
    fill(tmp_path / "captures", tmp_path / "out")
    with pytest.raises(Fault, match="run it as before with --finish, or remove"):
        fill(tmp_path / "captures", tmp_path / "out", tables=("frames",))
    fill(tmp_path / "captures", tmp_path / "out", finish=True)
    fill(tmp_path / "captures", tmp_path / "out", tables=("frames",))
    put(tmp_path / "captures", parts[1:], begin=1)
    fill(tmp_path / "captures", tmp_path / "out", tables=("frames",))


def test_a_state_that_was_removed_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "captures", parts_of("core-2.15.1", 2)[:1])
    fill(tmp_path / "captures", tmp_path / "out")
    (state,) = (tmp_path / "out" / "_nats-dissect.archive").glob("state-*")
    state.unlink()
    fill(tmp_path / "captures", tmp_path / "out", tables=("frames",))
    assert "its state is gone: connections that were open begin anew" in capsys.readouterr().err
