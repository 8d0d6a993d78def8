"""Files that appear when they are complete."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from natsync.object_store.reading import whole_file

posix = pytest.mark.skipif(sys.platform == "win32", reason="has other permissions and no pipes")


def write(path: Path, data: bytes) -> None:
    with whole_file(path) as file:
        file.write(data)


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with whole_file(path) as file:
        file.write(b"1")
        assert not path.exists()
    assert path.read_bytes() == b"1"
    with pytest.raises(KeyError):
        with whole_file(str(path)) as file:
            file.write(b"2")
            raise KeyError
    assert path.read_bytes() == b"1" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError) as caught:
        write(tmp_path / "missing" / "f", b"")
    assert caught.value.filename == tmp_path / "missing" / "f"


@posix
def test_permissions_are_those_of_other_files(tmp_path: Path) -> None:
    write(tmp_path / "new", b"")
    (tmp_path / "other").touch()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "other").stat().st_mode
    (tmp_path / "new").chmod(0o640)
    write(tmp_path / "new", b"1")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


@posix
def test_a_link_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    for data in (b"1", b"2"):
        write(tmp_path / "link", data)
        assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == data


@posix
def test_what_is_no_file_is_written(tmp_path: Path) -> None:
    """`-o /dev/null`, run by root, replaced the device."""
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write(tmp_path / "pipe", b"1")
    reader.join()
    assert read == [b"1"] and (tmp_path / "pipe").is_fifo()
    with pytest.raises(IsADirectoryError):
        write(tmp_path, b"1")
