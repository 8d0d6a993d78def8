"""Streams of a folder that grows: the frames of the command line, however the files come."""

from __future__ import annotations

import os
import pickle
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats.errors import CaptureError, SparkError
from dissect.nats.pipeline import records

from tests.support.damage import pcap_bytes, read_pcap
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import Interface
from tests.support.pcapwriter import Record as Packet
from tests.support.pcapwriter import pcapng_file, with_secrets
from tests.support.requirements import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

try:
    from dissect.nats.spark.options.settings import settings_of
    from dissect.nats.spark.structured_streaming.stream import FolderReader, Offset
except ImportError:
    missing("pyspark", "pip install 'natsync[spark]'")

COLUMNS = ["session", "number", "ts_ns", "op", "subject", "offset", "capture"]
LONG_AGO = (1_000_000_000, 1_000_000_000)
NOTHING = {"entries": 0, "files": 0, "late": 0, "grown": 0}


class Inbox:
    """Four parts of a capture that appear in a folder, and what a stream makes of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "inbox"
        self.path.mkdir()
        whole = read_pcap((CAPTURES / "core-2.15.1.pcap").read_bytes())
        size = -(-len(whole.records) // 4)
        self.parts = [
            pcap_bytes(whole.with_records(whole.records[at : at + size]))
            for at in range(0, len(whole.records), size)
        ]

    def put(self, *numbers: int) -> None:
        """Parts appear that nobody has written to for long."""
        for number in numbers:
            path = self.file(number)
            path.write_bytes(self.parts[number])
            os.utime(path, LONG_AGO)

    def file(self, number: int) -> Path:
        return self.path / f"part{number}.pcap"

    def reader(self, **options: str) -> FolderReader:
        """As in a process of its own: nothing but the folder of states is remembered."""
        values = {"path": str(self.path), "state": str(self.root / "state"), **options}
        made: FolderReader = pickle.loads(pickle.dumps(FolderReader(settings_of(values), COLUMNS)))
        return made

    def expected(self, *numbers: int) -> list[str]:
        """The command line's frames of some parts."""
        paths = [str(self.file(number)) for number in numbers]
        return sorted(
            repr([getattr(row, name) for name in COLUMNS]) for row in records(paths, ["frames"])
        )


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path)


def batch(reader: FolderReader, start: Offset, end: Offset) -> list[str]:
    """The rows between two offsets."""
    return [
        repr(list(row.values()))
        for partition in reader.partitions(start, end)
        for rows in reader.read(partition)
        for row in rows.to_pylist()
    ]


def test_flows_go_on_from_batch_to_batch(inbox: Inbox) -> None:
    rows: list[str] = []
    offset = inbox.reader().initialOffset()
    assert offset == NOTHING
    for arriving in ((0,), (2, 1), (), (3,)):
        inbox.put(*arriving)
        reader = inbox.reader()
        reached = reader.latestOffset()
        rows += batch(reader, offset, reached)
        reader.commit(reached)
        offset = reached
    assert offset == {"entries": 3, "files": 4, "late": 0, "grown": 0}
    assert sorted(rows) == inbox.expected(0, 1, 2, 3)
    states = sorted(path.name for path in (inbox.root / "state").glob("state-*"))
    assert states == ["state-000000002.pickle", "state-000000003.pickle"]


def test_a_batch_that_is_run_again_gives_the_same(inbox: Inbox) -> None:
    inbox.put(0, 1)
    first = inbox.reader().latestOffset()
    batch(inbox.reader(), NOTHING, first)
    inbox.put(2)
    second = inbox.reader().latestOffset()
    once = batch(inbox.reader(), first, second)
    inbox.put(3)
    assert inbox.reader().latestOffset()["entries"] == 3
    assert batch(inbox.reader(), first, second) == once != []


def test_secrets_in_a_file_are_for_those_after_it(
    inbox: Inbox, capsys: pytest.CaptureFixture[str]
) -> None:
    """TLS connections go on in files without secrets, in other batches; the states have none of them."""
    name = "tls-keys-2.15.1"
    whole = read_pcap((CAPTURES / f"{name}.pcap").read_bytes())
    secrets = (CAPTURES / f"{name}.keylog").read_bytes()
    third = len(whole.records) // 3
    first = [Packet(each.ts_ns, each.data, each.length) for each in whole.records[:third]]
    inbox.parts = [
        with_secrets(pcapng_file(first, [Interface(whole.linktype, tsresol=9)]), secrets),
        pcap_bytes(whole.with_records(whole.records[third : 2 * third])),
        pcap_bytes(whole.with_records(whole.records[2 * third :])),
    ]
    rows, offset = [], NOTHING
    for number in range(3):
        inbox.put(number)
        reader = inbox.reader()
        after = reader.latestOffset()
        rows += batch(reader, offset, after)
        offset = after
    assert sorted(rows) == inbox.expected(0, 1, 2)
    assert sum("'PUB'" in row for row in rows) > 10
    held = [path.read_bytes() for path in (inbox.root / "state").glob("state-*")]
    states = held + [zlib.decompress(state) for each in held for state in pickle.loads(each)[0]]
    lines = [line.split()[2] for line in secrets.splitlines() if line[:1] != b"#"]
    assert len(states) > 6 and lines
    for secret in (*lines, *(bytes.fromhex(line.decode()) for line in lines)):
        assert not any(secret in state for state in states)

    inbox.file(0).unlink()
    batch(inbox.reader(), {**NOTHING, "entries": 1}, {**NOTHING, "entries": 2})
    assert "its TLS secrets can no longer be read" in capsys.readouterr().err


def test_a_late_file_is_read_by_itself(inbox: Inbox, capsys: pytest.CaptureFixture[str]) -> None:
    inbox.put(0, 2)
    first = inbox.reader().latestOffset()
    rows = batch(inbox.reader(), NOTHING, first)
    inbox.put(1, 3)
    second = inbox.reader().latestOffset()
    assert second == {"entries": 2, "files": 4, "late": 1, "grown": 0}
    assert f"{inbox.file(1)} came late, and is read by itself" in capsys.readouterr().err
    rows += batch(inbox.reader(), first, second)
    late = [row for row in rows if "part1.pcap" in row]
    assert sorted(late) == inbox.expected(1)
    # What waits for the bytes of the late file goes on waiting.
    rest = set(rows) - set(late)
    assert rest <= set(inbox.expected(0, 2, 3)) and len(rest) > 50


def test_a_file_is_taken_when_it_has_settled(inbox: Inbox) -> None:
    inbox.put(0)
    os.utime(inbox.file(0))
    assert inbox.reader().latestOffset() == NOTHING
    assert inbox.reader(settle="1e9").latestOffset() == NOTHING
    inbox.put(1)
    assert (
        inbox.reader().latestOffset()["files"] == 1
    )  # the newest, for the other may be written yet
    os.utime(inbox.file(0), LONG_AGO)
    assert inbox.reader().latestOffset()["files"] == 2


def test_with_settle_0_a_new_file_is_read_at_once(inbox: Inbox) -> None:
    inbox.put(0)
    os.utime(inbox.file(0))
    assert inbox.reader(settle="0").latestOffset()["files"] == 1


def test_what_is_no_capture_is_left_alone(inbox: Inbox) -> None:
    for name, content in {"a.txt": b"hello", "b.pcap": b"", "c.pcap": inbox.parts[0][:24]}.items():
        (inbox.path / name).write_bytes(content)
        os.utime(inbox.path / name, LONG_AGO)
    assert inbox.reader().latestOffset() == NOTHING
    inbox.put(0)
    assert inbox.reader().latestOffset()["files"] == 1


def test_what_is_added_later_is_reported_and_not_read(
    inbox: Inbox, capsys: pytest.CaptureFixture[str]
) -> None:
    inbox.put(0)
    first = inbox.reader().latestOffset()
    expected = inbox.expected(0)
    with inbox.file(0).open("ab") as file:
        file.write(inbox.parts[1][24:])
    assert inbox.reader().latestOffset() == first  # more may come
    os.utime(inbox.file(0), LONG_AGO)
    reader = inbox.reader()
    second = reader.latestOffset()
    assert second == {"entries": 2, "files": 1, "late": 0, "grown": 1}
    assert f"{inbox.file(0)} has grown since it was taken" in capsys.readouterr().err
    assert reader.latestOffset() == inbox.reader().latestOffset() == second
    rows = batch(inbox.reader(), NOTHING, first)
    assert set(rows) <= set(expected) and len(rows) > len(expected) // 2
    assert batch(inbox.reader(), first, second) == []


def test_a_file_that_shrank(inbox: Inbox) -> None:
    inbox.put(0)
    first = inbox.reader().latestOffset()
    inbox.file(0).write_bytes(inbox.parts[0][:500])
    with pytest.raises(CaptureError, match="shorter than it was when it was taken"):
        batch(inbox.reader(), NOTHING, first)


def test_states_that_are_lost(inbox: Inbox) -> None:
    inbox.put(0)
    first = inbox.reader().latestOffset()
    inbox.put(1)
    second = inbox.reader().latestOffset()
    with pytest.raises(SparkError, match="lacks the state of offset 1; put it back"):
        batch(inbox.reader(), first, second)
    with pytest.raises(SparkError, match="lacks what the checkpoint goes on from"):
        batch(inbox.reader(state=str(inbox.root / "other")), first, second)


def test_states_of_other_options(inbox: Inbox) -> None:
    inbox.put(0)
    inbox.reader().latestOffset()
    with pytest.raises(SparkError, match="belongs to a stream with other options"):
        inbox.reader(payload="text").latestOffset()


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, "a stream needs a folder"),
        ({"state": ""}, "a stream needs a folder"),
        ({"table": "flows"}, "a stream has no table flows"),
        ({"state": "s", "from_time": "1"}, "a stream has no option 'from_time'; filter the stream"),
        ({"state": "s", "shares": "2"}, "a stream has no option 'shares'; one task reads what is"),
        ({"state": "s", "separate": "true"}, "a stream has no option 'separate'; flows continue"),
    ],
)
def test_what_a_stream_needs(options: dict[str, str], expected: str) -> None:
    with pytest.raises(SparkError, match=expected):
        FolderReader(settings_of({"path": "x", **options}), COLUMNS)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    options = {"path": str(tmp_path / "inbox"), "state": str(tmp_path / "state")}
    with pytest.raises(CaptureError, match="inbox: no such file or folder"):
        FolderReader(settings_of(options), COLUMNS)
    FolderReader(settings_of({**options, "path": str(tmp_path / "*.pcap")}), COLUMNS)


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_a_query_that_is_started_again(spark: SparkSession, inbox: Inbox) -> None:
    from dissect.nats.spark import register

    register(spark)

    def run() -> None:
        source = spark.readStream.format("nats-capture")
        source = source.option("state", str(inbox.root / "state"))
        sink = source.load(str(inbox.path)).writeStream.format("parquet")
        sink = sink.option("checkpointLocation", str(inbox.root / "checkpoint"))
        query = sink.trigger(availableNow=True).start(str(inbox.root / "out"))
        query.awaitTermination()

    inbox.put(0, 1)
    run()
    inbox.put(3, 2)
    run()
    found = spark.read.parquet(str(inbox.root / "out")).select(COLUMNS).collect()
    assert sorted(repr(list(row)) for row in found) == inbox.expected(0, 1, 2, 3)


def test_a_file_that_is_no_capture_is_named_once(
    inbox: Inbox, capsys: pytest.CaptureFixture[str]
) -> None:
    inbox.put(0)
    letter = inbox.path / "letter.txt"
    letter.write_text("Dear all")
    os.utime(letter, LONG_AGO)
    reader = inbox.reader()
    for _ in range(2):
        assert reader.latestOffset()["files"] == 1
    said = capsys.readouterr().err
    assert said.count(f"nats-dissect: {letter}: not a capture: it begins with") == 1


def test_a_damaged_file_ends_a_stream_that_fails_fast(inbox: Inbox) -> None:
    inbox.file(0).write_bytes(inbox.parts[0][:-5])
    os.utime(inbox.file(0), LONG_AGO)
    reader = inbox.reader(mode="FAILFAST")
    with pytest.raises(CaptureError, match="mode PERMISSIVE reads what can be read"):
        batch(reader, NOTHING, reader.latestOffset())
    assert batch(inbox.reader(), NOTHING, reader.latestOffset()) != []
