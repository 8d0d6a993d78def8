"""The JetStream tables of a real capture, against the log of who made it (tests/support/jetstream_scenarios).

Row for row on the capture as it is; on one with losses, nothing that the log does not have.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from dissect.nats.application.jetstream.layer import JETSTREAM
from dissect.nats.pipeline import records
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import Record
from dissect.nats.tables import TABLE_OF, TABLES

from tests.support.damage import pcap_bytes, read_pcap
from tests.support.paths import CAPTURES

DID = {
    name: entry["did"]
    for name, entry in json.loads((CAPTURES / "truth.json").read_text()).items()
    if "did" in entry
}
LOGGED = [(name, table) for name, did in DID.items() for table in did]


def rows(path: Path, table: str) -> list[Record]:
    found = list(records([str(path)], [table]))
    if table == "streaming":  # its server's own connections began before the capture
        sessions = records([str(path)], ["sessions"])
        begun = {getattr(row, "session"): getattr(row, "start") for row in sessions}
        found = [row for row in found if begun[getattr(row, "session")] == "handshake"]
    if table == "api":  # advisories are logged by nobody
        found = [row for row in found if not getattr(row, "api").startswith("EVENT.")]
    return found


def key(values: dict[str, object], names: set[str]) -> str:
    return json.dumps({name: values.get(name) for name in names}, sort_keys=True)


def as_values(row: Record, names: set[str]) -> dict[str, object]:
    return {name: getattr(row, name) for name in names}


def test_there_are_logs() -> None:
    assert {"api", "publishes", "deliveries", "pulls"} <= {table for _, table in LOGGED}
    assert all(DID[name][table] for name, table in LOGGED)


@pytest.mark.parametrize("name, table", LOGGED)
def test_rows_are_what_the_clients_did(name: str, table: str) -> None:
    logged = DID[name][table]
    names = {column for entry in logged for column in entry}
    found = Counter(key(as_values(row, names), names) for row in rows(CAPTURES / name, table))
    assert found == Counter(key(entry, names) for entry in logged)


@pytest.mark.parametrize("name, table", LOGGED)
@pytest.mark.parametrize("seed", range(3))
def test_losses_invent_nothing(name: str, table: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    capture = read_pcap((CAPTURES / name).read_bytes())
    kept = [record for record in capture.records if rng.random() > 0.05]
    path = tmp_path / name
    path.write_bytes(pcap_bytes(capture.with_records(kept)))
    whole = {_identity(row, table) for row in rows(CAPTURES / name, table)}
    for row in rows(path, table):
        if Anomaly.DELIVERY_NOT_SEEN.value in (getattr(row, "anomalies", None) or ()):
            continue  # named by its ack
        partial = _identity(row, table)
        assert any(_agree(partial, other) for other in whole), partial


def _agree(partial: tuple[object, ...], whole: tuple[object, ...]) -> bool:
    """Whether the values that one of them has are those of the whole row."""
    return all(part is None or part == other for part, other in zip(partial, whole))


def _identity(row: Record, table: str) -> tuple[object, ...]:
    """The columns about the message itself: losses may take what came later, not change this."""
    names = {
        "api": ("api", "stream", "consumer", "subject", "request"),
        "publishes": ("subject", "msg_id", "batch_id", "batch_seq", "payload_bytes"),
        "deliveries": (
            "stream",
            "consumer",
            "stream_seq",
            "delivered_count",
            "subject",
        ),
        "pulls": ("stream", "consumer", "batch", "expires_ns", "group"),
        "kv": ("bucket", "key", "op"),
        "objects": ("bucket", "name", "op"),
        "services": ("service", "endpoint", "subject"),
        "streaming": ("op", "channel", "client_id"),
    }[table]
    return tuple(getattr(row, name) for name in names)


def test_every_table_has_its_time_and_order() -> None:
    tables = [name for name, each in TABLES.items() if each.layer is JETSTREAM]
    every = list(records([str(CAPTURES)], tables))
    for table in tables:
        declared = TABLES[table]
        made = [row for row in every if TABLE_OF[type(row)] is declared]
        assert made and made == sorted(made, key=declared.position)
        for row in made:
            for column in declared.text:
                assert isinstance(column.cell(row), str)
