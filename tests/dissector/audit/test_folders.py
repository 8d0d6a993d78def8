"""Files in folders: at any depth, in order, none left out in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.audit.folders import columns_lacking, files_in, table_files, table_paths
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
