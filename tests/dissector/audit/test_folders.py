"""Files in folders: at any depth, in order, none left out in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.audit.folders import files_in, table_files, table_paths

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
