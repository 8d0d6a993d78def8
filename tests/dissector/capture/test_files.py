"""Files of this machine and of URIs: what there is, and how it is read from some byte on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dissect.nats.capture import CaptureReport, read_packets
from dissect.nats.capture.files import (
    capture_name,
    contents,
    identity,
    is_uri,
    matches,
    opened,
    size_and_mtime,
)
from dissect.nats.errors import CaptureError, MissingLibrary

from tests.dissector.partition.cutting import packets, same_in_partitions, whole
from tests.support.pcapwriter import pcap_file
from tests.support.refused import LISTING, refuse
from tests.support.requirements import missing

try:
    import pyarrow
except ImportError:
    missing("pyarrow", "pip install 'natsync[parquet]'")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "a folder"
    inside.mkdir()
    records = packets(90)
    for number in range(3):
        part = records[number * 30 : number * 30 + 30]
        (inside / f"{number}.pcap").write_bytes(pcap_file(part))
    (inside / "letter.txt").write_bytes(b"Dear all")
    (inside / "deeper").mkdir()
    return inside


def test_a_uri_is_distinguished_from_a_path() -> None:
    assert all(map(is_uri, ["s3a://bucket/a", "hdfs://name:8020/a", "file:///a", "GS://b/c"]))
    assert is_uri("file:/a") and not is_uri("file:a")
    assert not any(map(is_uri, ["/a/b", "a://b" * 0, "c:\\a", "-", "://a", "a/b://c"]))


def test_a_capture_has_the_name_of_its_file() -> None:
    assert capture_name("s3a://bucket/day/a.pcap") == "a.pcap" == capture_name("x/a.pcap")
    assert capture_name(os.fsdecode(b"x/a\xff.pcap")) == "a\\xff.pcap"


def test_one_file_has_one_identity(folder: Path) -> None:
    link = folder / "link"
    link.symlink_to(folder / "0.pcap")
    assert identity(str(link)) == identity(str(folder / "0.pcap")) != identity("0.pcap")
    assert identity("s3a://a/b") == "s3a://a/b"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_file_is_read_from_any_byte_on(elsewhere: bool, folder: Path) -> None:
    path = folder / "0.pcap"
    name = path.as_uri() if elsewhere else str(path)
    data = path.read_bytes()
    assert size_and_mtime(name) == (len(data), path.stat().st_mtime_ns)
    for start in (0, 1, len(data) - 3, len(data), len(data) + 9):
        with opened(name, start) as file:
            parts = []
            while piece := file.read1(100):
                assert len(piece) <= 100
                parts.append(piece)
        assert b"".join(parts) == data[start:]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_folder_has_files(elsewhere: bool, folder: Path) -> None:
    name = folder.as_uri() if elsewhere else str(folder)
    files = ["0.pcap", "1.pcap", "2.pcap", "letter.txt"]
    assert contents(name) == [f"{name}/{file}" for file in files]
    assert contents(f"{name}/0.pcap") is None
    assert matches(f"{name}/*.pcap") == [f"{name}/{file}" for file in files[:3]]
    assert matches(f"{name}/*.cap") == [] and matches(f"{name}/0.pcap") is None


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_is_not_there_is_reported(elsewhere: bool, folder: Path) -> None:
    name = folder.as_uri() if elsewhere else str(folder)
    for look in (size_and_mtime, opened):
        with pytest.raises(CaptureError, match="no such file"):
            look(f"{name}/nothing")
    with pytest.raises(CaptureError, match="this is not a file"):
        size_and_mtime(name)
    with pytest.raises(CaptureError, match="no file has such a name"):
        list(read_packets([f"{name}/*.cap"], CaptureReport()))
    assert contents(f"{name}/nothing") is None


def test_a_pattern_in_a_folder_that_cannot_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(folder, monkeypatch, LISTING)
    with pytest.raises(CaptureError, match="cannot be read .Permission denied."):
        matches(str(folder / "*.pcap"))


def test_a_uri_that_nobody_understands_is_reported() -> None:
    name = "what://is/this"
    for look in (size_and_mtime, opened, contents):
        with pytest.raises(CaptureError, match="cannot be reached") as caught:
            look(name)
        assert caught.value.path == name and "\n" not in str(caught.value)


def test_without_pyarrow_a_uri_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.fs", raising=False)
    for look in (size_and_mtime, opened, contents):
        with pytest.raises(MissingLibrary, match=r"pip install '\S*\[spark\]'"):
            look("file:///a")


@pytest.mark.parametrize("begin", ["file:", "FILE:", "file://"])
def test_a_uri_of_a_local_file(begin: str, tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(bytes(7))
    there = f"{begin}{tmp_path}"
    assert contents(there) == matches(f"{there}/?.pcap") == [f"{there}/a.pcap"]
    assert size_and_mtime(f"{there}/a.pcap")[0] == 7


def test_a_folder_elsewhere_is_the_folder_here(folder: Path) -> None:
    here, _ = whole([folder])
    there, reports = whole([folder.as_uri()])  # type: ignore[list-item]  # a URI is a str
    assert there == here and len(here) == 90
    assert [report.size for report in reports] == [
        (folder / f"{number}.pcap").stat().st_size for number in range(3)
    ]
    made = same_in_partitions([folder.as_uri()], 4096)  # type: ignore[list-item]  # a URI is a str
    assert len(made) > 6
    assert pyarrow.fs
