"""The folder of an archive; what a process that ends leaves in it is in test_archiving.py."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from dissect.nats.archive.folder import ArchiveFolder
from dissect.nats.archive.record import ArchiveRecord, SourceRecord
from dissect.nats.errors import MissingLibrary
from dissect.nats.output.arrow.records import batch
from dissect.nats.output.arrow.types import pyarrow
from dissect.nats.output.sink import Fault
from dissect.nats.schema.records import AnomalyRecord

from tests.support.requirements import missing

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))

HOUR_NS = 3600 * 10**9


def add(folder: ArchiveFolder, number: int, *times_ns: int) -> None:
    rows = [
        AnomalyRecord(
            session="s", ts_ns=at, packet=1, sender="originator", anomaly="lost", offset=0, bytes=1
        )
        for at in times_ns
    ]
    files = folder.files(number)
    files.add("anomalies", batch("anomalies", rows))
    files.close()
    state = f"state-{number:09}-0.pickle"
    record = ArchiveRecord("about", number, {"/captures": SourceRecord(state)})
    folder.commit(record, files.written, {state: b"state"})


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.p*"))


def test_a_batch_has_a_file_for_each_hour_and_the_latest_state_stays(tmp_path: Path) -> None:
    with closing(ArchiveFolder(str(tmp_path / "out"))) as folder:
        add(folder, 1, HOUR_NS, 2 * HOUR_NS)
        add(folder, 2, HOUR_NS)
    assert names(tmp_path / "out") == [
        "_nats-dissect.archive/state-000000002-0.pickle",
        "anomalies/date=1970-01-01/01-000000001.parquet",
        "anomalies/date=1970-01-01/01-000000002.parquet",
        "anomalies/date=1970-01-01/02-000000001.parquet",
    ]


def test_what_no_record_names_is_removed(tmp_path: Path) -> None:
    with closing(ArchiveFolder(str(tmp_path / "out"))) as folder:
        add(folder, 1, HOUR_NS)
        before = names(tmp_path / "out")
        staged = Path(folder.own) / "staged" / "000000002" / "anomalies"
        staged.mkdir(parents=True)
        for name in (
            "staged/000000002/anomalies/half.parquet",
            "state-000000002-0.pickle",
            "record.json.part",
        ):
            (Path(folder.own) / name).write_bytes(b"half")
    with closing(ArchiveFolder(str(tmp_path / "out"))) as folder:
        record = folder.recover()
    assert record and record.number == 1 and names(tmp_path / "out") == before
    assert not (Path(folder.own) / "staged").exists()


def test_a_folder_that_spark_has_filled_can_be_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "_nats-dissect.json").write_text("{}")
    (tmp_path / "frames").mkdir()
    with closing(ArchiveFolder(str(tmp_path))) as folder:
        assert folder.recover() is None


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    with pytest.raises(Fault, match="has files that this program has not written"):
        ArchiveFolder(str(tmp_path))
