"""Application layers while the frames come."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import cast

import pytest

from dissect.nats import FrameRecord, Options, Payload, frames, records
from dissect.nats.application.servers import ServerRecord
from dissect.nats.engine.application_rows import ApplicationRows, ApplicationStates
from dissect.nats.engine.connections import Connection
from dissect.nats.framing.events import Batch
from dissect.nats.pipeline import released
from dissect.nats.schema.declaration import LayerFrame
from dissect.nats.schema.records import Record
from dissect.nats.tables import FROM_ENGINE, TABLES, frames_for
from dissect.nats.types import Chunk, Direction
from natsync.protocol import Decoder, Kind, Role

from tests.support.paths import CAPTURES

CORE = [str(CAPTURES / "core-2.15.1.pcap")]


def shown(rows: Iterable[Record]) -> list[str]:
    return [repr(row).partition("(")[2] for row in rows]


def test_a_layer_gets_the_frames_it_wants_as_the_table_has_them() -> None:
    found = [row for rows in released(CORE, [frames_for("servers")]) for row in rows.records]
    assert all(isinstance(row, LayerFrame) for row in found)
    wanted = [row for row in frames(CORE) if row.op in ("INFO", "CONNECT")]
    assert [row.number for row in wanted] == [getattr(row, "number") for row in found]


@pytest.mark.parametrize("payload", Payload)
def test_frames_are_the_same_beside_a_layer(payload: Payload) -> None:
    options = Options(payload=payload)
    both = list(records(CORE, ["frames", "servers"], options))
    assert [row for row in both if isinstance(row, FrameRecord)] == list(frames(CORE, options))
    assert [row for row in both if isinstance(row, ServerRecord)] == list(
        records(CORE, ["servers"], options)
    )


@pytest.mark.parametrize(
    "name", ["orders-2.15.1", "stores-2.15.1", "services-2.15.1", "cluster-2.15.1", "lossy"]
)
def test_rows_of_layers_are_the_same_without_a_session(name: str) -> None:
    paths = [str(CAPTURES / f"{name}.pcap")]
    layered = [table for table in TABLES if table not in FROM_ENGINE]
    kinds = {TABLES[table].row for table in layered}
    alone = [row for row in records(paths, layered) if row.__class__ in kinds]
    beside = [row for row in records(paths, list(TABLES)) if row.__class__ in kinds]
    assert alone and sorted(shown(alone)) == sorted(shown(beside))


def test_rows_of_tables_that_nobody_wants_are_left_out() -> None:
    server = ServerRecord(first_ns=1, last_ns=2)
    assert ApplicationStates(["servers"]).requested([server]) == [server]
    assert ApplicationStates(["frames"]).requested([server]) == []


@pytest.mark.parametrize(
    ("reply", "awaited"),
    [(b"_INBOX.a", [b"_INBOX.a"]), (b"\xc3\xa9", [b"\xc3\xa9"]), (b"\xff", None)],
)
def test_the_subjects_of_awaited_answers_are_known_if_they_are_text(
    reply: bytes, awaited: list[bytes] | None
) -> None:
    flow = SimpleNamespace(id="0123456789abcdef")
    states = ApplicationStates(["publishes", "streaming", "servers"])
    made = ApplicationRows(cast("Connection", SimpleNamespace(flow=flow)), Options(), states)
    assert made.awaited() == []
    decoder = Decoder(Role.CLIENT, Kind.CLIENT)
    frames_of = decoder.receive(b"PUB orders " + reply + b" 1\r\nx\r\n")
    last = Chunk(1, 1, "x", 0, b"")
    assert (
        made.rows([Batch(Direction.ORIGINATOR, 1, last, last, frames_of, None)], Kind.CLIENT, "")
        == []
    )
    assert made.awaited() == awaited
    assert made.last_number == 1
