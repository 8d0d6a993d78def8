"""Memory: what is over is freed at once, not when a garbage collector looks; and what is kept is small."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from dissect.nats import Options
from dissect.nats.engine.connections import Connection, ReleaseKey
from dissect.nats.engine.dissection import Dissection
from dissect.nats.engine.same_sessions import with_same_sessions
from dissect.nats.engine.session_tables import ReleasedRows
from dissect.nats.framing import ConnectionFraming
from dissect.nats.framing.events import Batch
from dissect.nats.framing.frame_stream import FrameStream
from dissect.nats.pipeline import released
from dissect.nats.sessions import Session
from dissect.nats.tables import TABLES
from dissect.nats.tcp.flow import Flow
from dissect.nats.tcp.flow_table import FlowTable
from dissect.nats.tcp.reassembly import Stream
from dissect.nats.types import Segment, Tick

from tests.support.conversations import CONNECT, INFO
from tests.support.pcapwriter import Conversation, Record, pcap_file
from tests.support.records import session_record
from tests.support.segments import segments, segments_of

KEPT = 20
CLASSES = (Flow, Stream, Connection, ConnectionFraming, FrameStream, Session, Batch)


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def ours() -> Counter[type]:
    """How many objects of these classes there are."""
    return Counter(each.__class__ for each in gc.get_objects() if type(each) in CLASSES)


def conversation(port: int, kind: str) -> Conversation:
    made = Conversation(("10.0.0.1", port), now_ns=port * 10**6).handshake()
    if kind == "other":
        return made.from_client(b"GET / HTTP/1.1\r\n\r\n").close()
    made.from_server(INFO).from_client(CONNECT)
    made.from_client(b"SUB a.* 1\r\nPUB a.b r.1 2\r\nhi\r\n").from_server(b"MSG a.b 1 2\r\nhi\r\n")
    if kind == "lost":
        made.from_client(b"PING\r\n", skip=True).from_client(b"PUB a.b 2\r\nhi\r\nPING\r\n")
    return made if kind == "open" else made.close()


@pytest.mark.parametrize("kind", ["closed", "open", "lost", "other"])
def test_a_connection_that_is_over_is_freed_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t.pcap"
    path.write_bytes(
        pcap_file([r for port in range(1, 201) for r in conversation(port, kind).records])
    )
    options = Options(max_flows=KEPT)
    with without_collector():
        most: Counter[type] = Counter()
        for count, rows in enumerate(released([str(path)], list(TABLES), options)):
            rows.records.clear()
            if count % 100 == 0:
                most |= ours()
    assert KEPT // 2 <= most[Flow] and max(most.values()) <= 2 * (KEPT + 2), most


def test_a_flow_that_is_over_is_not_kept_for_its_deadline() -> None:
    table = FlowTable(Stream)
    with without_collector():
        for port in range(1, 1001):
            for segment in segments_of(conversation(port, "closed").records):
                table.add(segment)
        for after_ns in (0, 1):  # one time far ahead may be wrong, until the next packet agrees
            table.tick(10**15 + after_ns)
        assert not [each for each in gc.get_objects() if type(each) is Flow]


def test_a_remembered_flow_takes_two_kilobytes() -> None:
    every = [segments_of(conversation(port, "open").records)[:3] for port in range(1, 1001)]
    table = FlowTable(Stream)
    tracemalloc.start()
    try:
        for some in every:
            for segment in some:
                table.add(segment)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / len(every) <= 2000


def test_an_open_session_takes_twelve_kilobytes(tmp_path: Path) -> None:
    """With its flow, streams and framing: of a connection that has said INFO, and nothing else since."""
    count = 250
    every = (conversation(port, "open").records[:4] for port in range(1, count + 1))
    assert taken_by(tmp_path, [record for records in every for record in records]) / count <= 12_000


def test_a_connection_joined_late_that_says_little_takes_eight_kilobytes(tmp_path: Path) -> None:
    count = 250
    every = []
    for port in range(1, count + 1):
        made = Conversation(("10.0.0.1", port), now_ns=port * 10**6)
        every += made.from_client(b"PUB a 2\r\nhi\r\n").records
    assert taken_by(tmp_path, every) / count <= 8000


@pytest.mark.parametrize("table", ["sessions", "flows"])
def test_a_session_that_is_finished_takes_two_kilobytes(tmp_path: Path, table: str) -> None:
    """While it lingers, with the payload of its last packets, which may be long."""
    count = 250
    long = INFO.replace(b"{", b'{"long":"%s",' % (b"x" * 1000))
    every = []
    for port in range(1, count + 1):
        made = Conversation(("10.0.0.1", port), now_ns=port * 10**6).handshake().from_server(long)
        made.from_client(CONNECT + b"SUB a.* 1\r\nPUB a.b r.1 2\r\nhi\r\n")
        every += made.from_server(b"MSG a.b 1 2\r\nhi\r\n").close().records
    assert taken_by(tmp_path, every, table) / count <= 2048


def test_rows_of_sessions_that_wait_for_the_last_one_take_bounded_memory() -> None:
    row = session_record()
    some = (
        ReleasedRows(ReleaseKey(1), [replace(row, first_ns=number, session=f"{number:016x}")])
        for number in range(20_000)
    )
    gc.collect()
    tracemalloc.start()
    try:
        count = sum(len(rows.records) for rows in with_same_sessions(some))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 20_000 and most <= 16 << 20


def taken_by(folder: Path, records: list[Record], table: str = "sessions") -> int:
    """The bytes that sessions take after these packets."""
    path = folder / "t.pcap"
    path.write_bytes(pcap_file(records))
    taken: list[int] = []

    def traced() -> Iterator[Segment | Tick]:
        yield from segments([str(path)])
        gc.collect()
        taken.append(tracemalloc.get_traced_memory()[0])

    def dissect() -> None:
        dissection = Dissection([table], Options())
        for _ in chain(dissection.feed(traced(), together=False), dissection.finish(False)):
            pass

    dissect()  # fills caches
    tracemalloc.start()
    try:
        dissect()
    finally:
        tracemalloc.stop()
    return taken[1]
