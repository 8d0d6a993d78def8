"""Which files in a folder of tables are data, here and in a bucket."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dissect.nats.errors import CaptureError
from dissect.nats.output import table_folder
from dissect.nats.output.table_folder import (
    DELTA_RUNS,
    MARK,
    RUNS,
    RemoteTables,
    data_rule,
    file_name,
    local_rule,
    run_in,
    run_of,
)

from tests.support.s3 import Bucket

RUN, OTHER = f"{1:032x}", f"{2:032x}"
OF_RUN, OF_OTHER = file_name(3, 0, RUN), file_name(3, 0, OTHER)
MARKED = json.dumps({"run": RUN}).encode()


@pytest.mark.parametrize(
    "mark, going_on, data",
    [
        (MARKED, False, {OF_RUN, "part-0.parquet"}),
        (MARKED, True, {OF_RUN, "part-0.parquet"}),
        (b'{"rows": {}}', False, {"part-0.parquet"}),  # of an earlier version
        (b"[", False, {"part-0.parquet"}),
        (None, True, {"part-0.parquet"}),  # the first run was killed
        (None, False, {OF_RUN, OF_OTHER, "part-0.parquet"}),  # a copy of a table
    ],
)
def test_files_of_a_run_are_data_once_the_mark_names_it(
    mark: bytes | None, going_on: bool, data: set[str], tmp_path: Path
) -> None:
    names = [OF_RUN, OF_OTHER, "part-0.parquet", "part-0.parquet.crc", "notes.txt"]
    assert set(filter(data_rule(mark, going_on), names)) == data
    if mark is not None:
        (tmp_path / MARK).write_bytes(mark)
    if going_on:
        (tmp_path / RUNS).mkdir()
    assert set(filter(local_rule(str(tmp_path)), names)) == data


def test_a_mark_names_its_run() -> None:
    assert run_of(MARKED) == RUN
    assert run_of(None) is run_of(b"") is run_of(b"[1]") is run_of(b'{"run": 1}') is None


def test_tables_in_a_bucket_are_copied_without_what_is_no_data(
    s3_bucket: Bucket, tmp_path: Path
) -> None:
    for name in (f"frames/{OF_RUN}", f"frames/{OF_OTHER}", "flows.parquet", "kv/letter.txt"):
        s3_bucket.put(f"tables/{name}", name.encode())
    s3_bucket.put(f"tables/{MARK}", MARKED)
    tables = RemoteTables(s3_bucket.uri("tables/", "s3a"))
    assert tables.exists
    found = {name: tables.files(name) for name in ("frames", "flows", "kv", "api")}
    assert found == {
        "frames": [f"frames/{OF_RUN}"],
        "flows": ["flows.parquet"],
        "kv": [],
        "api": None,
    }
    tables.fetch(found, str(tmp_path), lambda table, name: True)
    copied = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert copied == {f"frames/{OF_RUN}", "flows.parquet"} and (tmp_path / "kv").is_dir()
    assert (tmp_path / "flows.parquet").read_bytes() == b"flows.parquet"


def test_a_folder_that_is_not_there_has_no_tables(s3_bucket: Bucket) -> None:
    assert not RemoteTables(s3_bucket.uri("nothing")).exists


def test_tables_that_may_not_be_read_are_named(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError("Access Denied")

    monkeypatch.setattr(table_folder, "listed", refused)
    with pytest.raises(CaptureError, match="cannot be read .Access Denied") as caught:
        RemoteTables(s3_bucket.uri("tables"))
    assert caught.value.path == s3_bucket.uri("tables")


def test_tables_of_delta_are_refused_because_only_their_log_says_which_files_are_data(
    s3_bucket: Bucket, tmp_path: Path
) -> None:
    (tmp_path / DELTA_RUNS).mkdir()
    with pytest.raises(OSError, match="tables of Delta Lake") as error:
        local_rule(str(tmp_path))
    assert error.value.filename == str(tmp_path)
    s3_bucket.put(f"tables/{DELTA_RUNS}/{RUN}.json", b"[]")
    with pytest.raises(CaptureError, match="cannot be read .tables of Delta Lake"):
        RemoteTables(s3_bucket.uri("tables"))


def test_a_file_names_the_run_that_has_written_it() -> None:
    assert run_in(f"frames/date=2026-03-01/{OF_RUN}") == RUN
    assert run_in("part-00000-1234.parquet") is None
