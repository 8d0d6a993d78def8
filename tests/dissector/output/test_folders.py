"""Files in folders: at any depth, in order, none left out in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.capture.time_range import TimeRange
from dissect.nats.output.day_files import HOUR_NS
from dissect.nats.output.folders import (
    ALWAYS,
    columns_lacking,
    files_in,
    may_be_in,
    table_files,
    table_paths,
)
from dissect.nats.tables import TABLES

from tests.support.refused import refuse


def test_files_at_any_depth_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/a.yml", "a.yaml", "c.txt"):
        (tmp_path / name).touch()
    found = [str(path.relative_to(tmp_path)) for path in files_in(tmp_path, (".yml", ".yaml"))]
    assert found == ["a.yaml", "b/a.yml"]


def test_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b").mkdir()
    refuse(tmp_path / "b", monkeypatch)
    with pytest.raises(PermissionError):
        files_in(tmp_path, (".yml",))


def test_a_table_is_a_folder_or_a_file(tmp_path: Path) -> None:
    root, folder, file = str(tmp_path), tmp_path / "frames", tmp_path / "frames.parquet"
    assert table_paths(root, ["frames"]) == {} == table_paths(f"{root}/none", ["frames"])
    folder.touch()  # is no table
    assert table_paths(root, ["frames"]) == {}
    file.touch()
    assert table_paths(root, ["frames", "kv"]) == {"frames": str(file)}
    assert table_files(str(file)) == [str(file)]
    folder.unlink()
    folder.mkdir()
    for name in ("page.html", "a.parquet"):
        (folder / name).touch()
    assert table_paths(root, ["frames"]) == {"frames": str(folder)}
    assert table_files(str(folder)) == [str(folder / "a.parquet")]


@pytest.mark.parametrize(
    "name, hours",
    [
        ("date=1970-01-02/part-00000-000.parquet", (24, 47)),
        ("date=1970-01-02/03-000000042.parquet", (27, 27)),
        ("date=1970-01-02/03-000000042-1.parquet", (27, 27)),
        ("date=1970-01-02/03-of-somebody.parquet", (24, 47)),
    ],
)
def test_the_name_of_a_file_shows_the_times_of_its_rows(name: str, hours: tuple[int, int]) -> None:
    first, last = hours
    found = [
        may_be_in("frames", name, TimeRange(hour * HOUR_NS, (hour + 1) * HOUR_NS))
        for hour in range(72)
    ]
    assert found == [first <= hour <= last for hour in range(72)]
    # A session may end much later than it began.
    late = TimeRange(1000 * HOUR_NS, None)
    assert may_be_in("sessions", name, late) and not may_be_in("frames", name, late)
    assert not may_be_in("sessions", name, TimeRange(None, first * HOUR_NS))


def test_names_that_show_no_time(tmp_path: Path) -> None:
    late = TimeRange(1000 * HOUR_NS, None)
    assert may_be_in("frames", "frames.parquet", late)
    assert may_be_in("frames", "date=today/a.parquet", late)
    untimed = "date=__HIVE_DEFAULT_PARTITION__/00-000000001.parquet"
    assert may_be_in("subscriptions", untimed, ALWAYS)
    assert not may_be_in("subscriptions", untimed, late)


def test_columns_that_were_added_later_may_lack_and_those_of_every_row_may_not() -> None:
    names = {column.name for column in TABLES["flows"].columns}
    assert columns_lacking("flows", names) == []
    assert columns_lacking("flows", names | {"new"}) == []  # of a later version
    old = names - {"path", "duplicate_bytes"}
    assert columns_lacking("flows", old) == ["duplicate_bytes", "path"]
    for needed in ("first_ns", "time", "community_id"):
        with pytest.raises(ValueError, match=f"it has no column {needed}"):
            columns_lacking("flows", old - {needed})


@pytest.mark.parametrize("table", TABLES)
def test_no_table_passes_for_another_one(table: str) -> None:
    names = {column.name for column in TABLES[table].columns}
    for other in TABLES:
        if other != table:
            with pytest.raises(ValueError, match="it has"):
                columns_lacking(other, names)
