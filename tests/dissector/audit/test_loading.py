"""The rows that rules need, made by one process or by two."""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from dissect.nats.audit.loading import loaded_records
from dissect.nats.capture import CaptureReport
from dissect.nats.options import Options
from dissect.nats.output.duckdb import create_tables, load
from dissect.nats.schema.records import FrameRecord, RequestRecord

from tests.support.conversations import CONNECT, INFO
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import Conversation, pcap_file
from tests.support.requirements import missing

try:
    import duckdb
except ImportError as lack:
    missing("duckdb", str(lack))

pytestmark = pytest.mark.usefixtures("worker_processes")

TABLES = ["frames", "sessions", "servers"]
PATHS = [str(CAPTURES / name) for name in ("auth-2.15.1.pcap", "core-2.15.1.pcap")]


def rows(options: Options, jobs: int, report: CaptureReport) -> Counter[str]:
    return Counter(map(repr, loaded_records(PATHS, TABLES, options, report, jobs)))


@pytest.mark.parametrize("separate", [False, True])
def test_two_processes_make_the_rows_of_one(separate: bool) -> None:
    options = Options(separate=separate)
    alone, together = CaptureReport(), CaptureReport()
    one = rows(options, 1, alone)
    assert {name.partition("(")[0] for name in one} == {
        "FrameRecord",
        "SessionRecord",
        "ServerRecord",
    }
    assert rows(options, 2, together) == one
    assert [file.packets for file in together.files] == [file.packets for file in alone.files]


def test_frames_of_two_processes_are_columns_and_the_same() -> None:
    columns = {"frames": ["session", "number", "op", "subject"]}
    stored = []
    for jobs in (1, 2):
        rows = loaded_records(PATHS, TABLES, Options(), CaptureReport(), jobs, columns)
        with closing(duckdb.connect(":memory:")) as connection:
            create_tables(connection, TABLES, columns)
            load(connection, rows, columns)
            stored.append(
                [connection.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in TABLES]
            )
    assert stored[0] == stored[1] and len(stored[0][0]) > 200 and all(stored[0])
    rows = loaded_records(PATHS, TABLES, Options(), CaptureReport(), 2, columns)
    assert "FrameRecord" not in {type(row).__name__ for row in rows}


def rows_in_memory() -> int:
    # Not isinstance, which asks what a dead weak proxy stands for.
    return sum(type(each) in (FrameRecord, RequestRecord) for each in gc.get_objects())


def test_rows_do_not_wait_for_later_ones(tmp_path: Path) -> None:
    """So memory does not grow with the number of messages, as long as they are answered."""
    traffic = Conversation().handshake().from_server(INFO).from_client(CONNECT + b"SUB r.* 1\r\n")
    for _ in range(8000):
        traffic.from_client(b"PUB a.b r.1 2\r\nhi\r\n").from_server(b"MSG r.1 1 2\r\nhi\r\n")
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap_file(traffic.close().records))
    before = rows_in_memory()  # what other tests keep
    found = [before]
    rows = loaded_records([str(path)], ["frames", "requests"], Options(), CaptureReport())
    for number, _ in enumerate(rows):
        if number % 500 == 250:
            found.append(rows_in_memory())
    assert number > 24_000 - 10 and max(found) - before < 1000
