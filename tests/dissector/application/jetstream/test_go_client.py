"""The tables of what nats.go did, against its own report: row for row, with one inbox for all requests
and with one for each."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from dissect.nats.pipeline import records
from dissect.nats.schema.records import Record

from tests.support.go_client import go_peer
from tests.support.meshes import lasting_ports
from tests.support.requirements import missing
from tests.support.servers import NatsServer, require_server
from tests.support.stage import Sniffer
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SERVER = "jetstream { store_dir: $FOLDER, max_memory_store: 64MB, max_file_store: 64MB }\n"
# The columns of each table that the program reports.
COLUMNS = {
    "publishes": "subject msg_id seq duplicate err_code",
    "deliveries": "consumer stream_seq consumer_seq delivered_count pending ack",
    "kv": "op key revision",
    "objects": "op name bytes chunks digest_ok",
    "services": "side service version subject requests errors",
}
CONFIRMED = 5  # the acks of these sequences, modulo 5, ask to be confirmed


class Work(NamedTuple):
    """What the program reports, and the capture of it."""

    did: dict[str, list[list[object]]]
    capture: Path


@pytest.fixture(scope="module", params=[[], ["old"]], ids=["one-inbox", "inbox-each"])
def work(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Work:
    require_server("current")
    program, path = go_peer(), tmp_path_factory.mktemp("go") / "go.pcap"
    (port,) = lasting_ports(1)
    command = ["tcpdump", "-i", "lo", "-B", "65536", f"tcp port {port}"]
    with NatsServer(SERVER, port=port) as server:
        with ExitStack() as stack:
            try:
                stack.enter_context(Sniffer(path, command, lambda: 0))
            except (OSError, RuntimeError):
                missing("the right to capture", "run as root, with tcpdump installed")
            done = subprocess.run(
                [program, server.url, *request.param], capture_output=True, timeout=120, check=True
            )
            eventually(lambda: b"PUB the.end" in path.read_bytes())
    return Work(json.loads(done.stdout), path)


def found(path: Path, table: str) -> list[Record]:
    """The rows that the program can know of."""
    rows: Iterable[Record] = records([str(path)], [table])
    if table == "publishes":  # those of buckets and stores are in their tables
        rows = (row for row in rows if str(getattr(row, "subject")).startswith("s."))
    if table == "deliveries":
        rows = (row for row in rows if getattr(row, "stream") == "S")
    if table == "objects":  # a reader looks the object up, which the program does not say
        rows = (row for row in rows if getattr(row, "op") != "info")
    return list(rows)


@pytest.mark.parametrize("table", COLUMNS)
def test_rows_are_what_the_program_did(work: Work, table: str) -> None:
    names = COLUMNS[table].split()
    expected = Counter(tuple(value or None for value in row) for row in work.did[table])
    rows = found(work.capture, table)
    assert Counter(tuple(getattr(row, name) or None for name in names) for row in rows) == expected


def test_acks_are_confirmed_where_it_asked_for_that(work: Work) -> None:
    acked = [row for row in found(work.capture, "deliveries") if getattr(row, "ack") == "ack"]
    sequences = {getattr(row, "stream_seq") for row in acked}
    confirmed = {getattr(row, "stream_seq") for row in acked if getattr(row, "confirmed_ns")}
    assert confirmed == {each for each in sequences if each % CONFIRMED == 1} != set()


def test_nothing_is_odd(work: Work) -> None:
    assert not list(records([str(work.capture)], ["anomalies"]))
    for table in COLUMNS:
        assert not [row for row in found(work.capture, table) if getattr(row, "anomalies", None)]
