"""The output folder: what tasks write, and what of it is published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats.errors import DissectError, OutputError, SparkError
from dissect.nats.output import day_files
from dissect.nats.output.arrow.records import batch
from dissect.nats.output.day_files import WrittenFile
from dissect.nats.output.table_folder import MARK, is_data, run_of
from dissect.nats.schema.records import AnomalyRecord, Record, SubscriptionRecord
from dissect.nats.spark import output
from dissect.nats.spark.output import Folder, PartitionWriter
from dissect.nats.storage import elsewhere, is_uri, write_whole

from tests.support.requirements import missing
from tests.support.s3 import SECRET, Bucket

try:
    from pyarrow.fs import FileSelector, LocalFileSystem
except ImportError:
    missing("pyarrow", "pip install 'natsync[spark]'")

if TYPE_CHECKING:
    import pyarrow as pa

DAY_NS = 86_400 * 10**9
RUN, NEXT, LAST = (f"{number:032x}" for number in (1, 2, 3))


def anomaly(ts_ns: int) -> Record:
    return AnomalyRecord(
        session="s", ts_ns=ts_ns, packet=1, sender="originator", anomaly="lost", offset=0, bytes=1
    )


def anomalies(*times_ns: int) -> pa.RecordBatch:
    return batch("anomalies", list(map(anomaly, times_ns)))


@dataclass
class Place:
    """A folder for tables: where, and what is in it."""

    out: str
    names: Callable[[], list[str]]

    @property
    def data(self) -> list[str]:
        """The names of the files that readers take for tables."""
        system, root = elsewhere(self.out) if is_uri(self.out) else (LocalFileSystem(), self.out)
        mark = None
        if MARK in self.names():
            with system.open_input_stream(f"{root}/{MARK}") as source:
                mark = source.read()
        return [name for name in self.names() if "/" in name and is_data(name, run_of(mark))]

    def written(self, run: str, *times_ns: int) -> list[WrittenFile]:
        """Writes anomalies, as a task does."""
        writer = PartitionWriter(self.out, run, 7, ["anomalies"])
        writer.add("anomalies", anomalies(*times_ns))
        writer.close()
        return writer.written


def names_below(folder: str) -> list[str]:
    """The names of all files in a folder, in it and below."""
    system, root = elsewhere(folder)
    found = system.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
    return sorted(one.path.removeprefix(f"{root}/") for one in found if one.is_file)


@pytest.fixture(params=["local", "s3", "gs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "s3":
        bucket: Bucket = request.getfixturevalue("s3_bucket")
        return Place(bucket.uri("out", "s3a"), lambda: bucket.names("out"))
    if request.param == "gs":
        folder = f"{request.getfixturevalue('gs_bucket')}/out"
        return Place(folder, lambda: names_below(folder))
    out = tmp_path / "out"
    return Place(
        str(out),
        lambda: sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()),
    )


def test_rows_are_in_files_by_day_in_order(place: Place) -> None:
    from pyarrow import BufferReader, parquet

    folder = Folder(place.out)
    folder.check()
    run = folder.begin(RUN)
    writer = PartitionWriter(folder.out, run, 7, ["anomalies", "subscriptions"])
    writer.add("anomalies", anomalies(1, DAY_NS + 5, 3))
    writer.add("anomalies", anomalies(4))
    untimed = SubscriptionRecord(session="s", sid="1", sender="originator")
    writer.add("subscriptions", batch("subscriptions", [untimed]))
    writer.close()
    folder.publish(run, ["anomalies", "subscriptions"], writer.written, {"done": True})
    first = f"anomalies/date=1970-01-01/part-00007-000-{RUN}.parquet"
    assert place.names() == [
        "_nats-dissect.json",
        first,
        f"anomalies/date=1970-01-02/part-00007-001-{RUN}.parquet",
        f"subscriptions/date=__HIVE_DEFAULT_PARTITION__/part-00007-002-{RUN}.parquet",
    ]
    system, root = elsewhere(place.out) if is_uri(place.out) else (LocalFileSystem(), place.out)
    with system.open_input_stream(f"{root}/{first}") as file:
        assert parquet.read_table(BufferReader(file.read()))["ts_ns"].to_pylist() == [1, 3, 4]


def test_only_what_is_listed_is_published(place: Place) -> None:
    folder = Folder(place.out)
    run = folder.begin(RUN)
    place.written(run, 1)  # of a task whose answer never came
    folder.publish(run, ["anomalies"], place.written(run, 1), {})
    assert len(place.names()) == 2


def test_until_all_is_there_the_old_tables_stay(place: Place) -> None:
    folder = Folder(place.out)
    folder.publish(folder.begin(RUN), ["frames", "flows"], [], {})
    before = place.names()
    folder.check()
    folder.begin(NEXT)
    assert place.names() == [MARK, *place.data] == before
    folder.check()
    folder.publish(folder.begin(NEXT), ["flows"], [], {})
    assert place.names() == [MARK, f"flows/date=1970-01-01/part-00000-000-{NEXT}.parquet"]


@pytest.mark.parametrize("first", [True, False])
def test_a_run_that_is_killed_while_it_publishes_is_not_seen_and_cleared_by_the_next(
    place: Place, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(place.out)
    if not first:
        folder.publish(folder.begin(RUN), ["anomalies"], place.written(RUN, 1, DAY_NS), {})
    complete = place.data
    run = folder.begin(NEXT)
    with monkeypatch.context() as patch:
        patch.setattr(output, "write_whole", killed)
        with pytest.raises(KeyboardInterrupt):
            folder.publish(run, ["anomalies"], place.written(run, 1, DAY_NS, 9 * DAY_NS), {})
    assert sum(f"-{NEXT}.parquet" in name for name in place.names()) == 3
    assert place.data == complete and len(complete) == (0 if first else 2)
    again = Folder(place.out)
    again.check()
    again.begin(LAST)
    assert [name for name in place.names() if name != MARK] == complete


def killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_run_that_failed_leaves_nothing(place: Place) -> None:
    folder = Folder(place.out)
    folder.publish(folder.begin(RUN), ["anomalies"], place.written(RUN, 1), {})
    before = place.names()
    run = folder.begin(NEXT)
    place.written(run, 1)
    folder.discard(run)
    assert place.names() == before
    folder.discard(RUN)  # complete, so it stays
    assert place.names() == before


def test_what_is_complete_but_not_cleared_stays(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(place.out)
    folder.publish(folder.begin(RUN), ["anomalies"], place.written(RUN, 1), {})
    run = folder.begin(NEXT)

    def refused(*_: object) -> None:
        raise OSError("Access Denied")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "_remove", refused)
        with pytest.raises(SparkError, match="has the new ones: Access Denied"):
            folder.publish(run, ["anomalies"], place.written(run, 2), {})
        folder.discard(run)
    (name,) = place.data
    assert name.endswith(f"-{NEXT}.parquet") and len(place.names()) == 3
    folder.begin(LAST)
    assert place.data == [name] and len(place.names()) == 2


def test_tables_of_an_earlier_version_are_replaced(place: Place, tmp_path: Path) -> None:
    folder = Folder(place.out)
    folder.publish(folder.begin(RUN), ["frames", "flows"], [], {})
    system, root = elsewhere(place.out) if is_uri(place.out) else (LocalFileSystem(), place.out)
    for name in place.names():
        if name != MARK:
            system.move(f"{root}/{name}", f"{root}/{name.replace(f'-{RUN}', '')}")
    write_whole(system, f"{root}/{MARK}", b'{"rows": {}}')
    assert len(place.data) == 2
    folder.publish(folder.begin(NEXT), ["flows"], [], {})
    assert len(place.names()) == 2 and NEXT in place.data[0]


def test_a_file_does_not_grow_without_end(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(day_files, "_FILE_BYTES", 1)
    folder = Folder(place.out)
    writer = PartitionWriter(folder.out, folder.begin(RUN), 0, ["anomalies"])
    for ts_ns in (1, 2):
        writer.add("anomalies", anomalies(ts_ns))
    writer.close()
    assert [one.rows for one in writer.written] == [1, 1]
    assert len({one.name for one in writer.written}) == 2


def test_a_task_that_cannot_write_says_where(place: Place) -> None:
    folder = Folder(place.out)
    writer = PartitionWriter(folder.out, RUN, 0, ["anomalies"])
    if is_uri(place.out):
        writer._folder = "nobodys-bucket/x"
    with pytest.raises(OutputError, match="cannot be written: ") as caught:  # nothing has begun
        writer.add("anomalies", anomalies(1))
    assert str(caught.value).startswith(f"{place.out}: ") and SECRET not in str(caught.value)


def test_clocks_that_went_mad_leave_a_few_files_open(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "out"))
    run = folder.begin(RUN)
    writer = PartitionWriter(folder.out, run, 0, ["anomalies"])
    times = [number * 1000 * DAY_NS for number in range(100)] + [1 << 127, -(1 << 127)]
    writer.add("anomalies", anomalies(*times))
    writer.close()
    assert sum(one.rows for one in writer.written) == 102
    days = {one.name.partition("/")[0] for one in writer.written}
    assert {"date=2262-04-11", "date=1677-09-21"} <= days  # of the times that 64 bits hold


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(SparkError, match="is not a folder"):
        Folder(str(tmp_path / "out")).check()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SparkError, match="cannot be"):
        Folder(str(tmp_path / "file" / "out")).begin(RUN)


@pytest.mark.parametrize("out", ["foo://x/y", "hdfs://no host/x"])
def test_a_folder_that_cannot_be_reached_is_named(out: str) -> None:
    with pytest.raises(DissectError, match="cannot be reached") as caught:
        Folder(out)
    assert str(caught.value).startswith(f"{out}: ")


def test_what_an_archive_has_in_the_folder_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    own = ["_nats-dissect.archive/record.json", "frames/date=2026-03-01/13-000000042.parquet"]
    for name in (*own, "frames/date=2026-03-01/part-00001-000.parquet"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(b"x")
    folder = Folder(str(out))
    folder.check()
    for run in (RUN, NEXT):
        folder.publish(folder.begin(run), ["frames"], [], {})
        found = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
        assert found == {*own, MARK, f"frames/date=1970-01-01/part-00000-000-{run}.parquet"}
