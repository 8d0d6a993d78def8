"""Sessions that are finished before their connections are over: the same rows from less memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dissect.nats import Options, pipeline
from dissect.nats.engine.finished_session import FinishedSession, LastRows
from dissect.nats.framing.events import Note
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import Record, SessionRecord
from dissect.nats.tables import TABLES
from dissect.nats.tcp import flow_table
from dissect.nats.tcp.reassembly import Stream
from dissect.nats.types import Direction

from tests.support.conversations import CONNECT, INFO
from tests.support.pcapwriter import Conversation, pcap_file
from tests.support.segments import segments_of
from tests.support.tcp_conversation import ACK, FIN, PSH

SERVER = ("10.0.0.2", 4222)


def conversation(port: int = 40000) -> Conversation:
    """A client with a subscription that stays open, a request without a reply, and one +OK too many."""
    made = Conversation(("10.0.0.1", port)).handshake().from_server(INFO).from_client(CONNECT)
    made.from_client(b"SUB a.* 1\r\nPUB a.b r.1 2\r\nhi\r\n").from_server(b"MSG a.b 1 2\r\nhi\r\n")
    return made.from_server(b"+OK\r\n")


def closed() -> Conversation:
    return conversation().close()


def repeated() -> Conversation:
    """After both FINs, the last bytes come again: they are late packets."""
    made = closed()
    made.emit(
        made.server, PSH | ACK, made.next[made.server] - 6, made.next[made.client], b"+OK\r\n"
    )
    return made


def contradicted() -> Conversation:
    """After both FINs, other bytes come in the place of the last ones."""
    made = closed()
    made.emit(
        made.server, PSH | ACK, made.next[made.server] - 6, made.next[made.client], b"+NO\r\n"
    )
    return made


def continued() -> Conversation:
    """After both FINs, more bytes come."""
    made = closed()
    made.emit(made.server, PSH | ACK, made.next[made.server], made.next[made.client], b"PING\r\n")
    return made


def unfinished() -> Conversation:
    return conversation().from_client(b"PUB a 10\r\nhel").close()


def with_fin() -> Conversation:
    """The last frame and the FIN are one packet."""
    made = conversation()
    made.packet(made.client, FIN | ACK, b"PING\r\n")
    made.packet(made.server, FIN | ACK, b"PONG\r\n")
    made.packet(made.client, ACK)
    return made


def in_disorder() -> Conversation:
    """The packet before the second FIN comes after it."""
    made = conversation()
    made.packet(made.client, FIN | ACK)
    made.from_server(b"PING\r\n")
    made.packet(made.server, FIN | ACK)
    made.records[-2:] = [made.records[-1], made.records[-2]]
    return made


def lost() -> Conversation:
    made = conversation().from_client(b"PING\r\n", skip=True).from_client(b"PUB a 2\r\nhi\r\n")
    return made.close()


def rows(path: Path, tables: list[str]) -> list[tuple[object, list[Record]]]:
    found = pipeline.released([str(path)], tables, Options())
    return [(each.release, list(each.records)) for each in found]


@pytest.mark.parametrize("tables", [list(TABLES), ["api", "deliveries", "services"]])
@pytest.mark.parametrize(
    "make",
    [closed, repeated, contradicted, continued, unfinished, with_fin, in_disorder, lost],
)
def test_rows_are_those_of_a_session_that_is_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[], Conversation],
    tables: list[str],
) -> None:
    path = tmp_path / "t.pcap"
    records, first = make().records, len(closed().records)
    others = [conversation(port).close() for port in (40001, 40002)]
    # Late packets come after others have closed.
    between = [record for other in others for record in other.records]
    path.write_bytes(pcap_file([*records[:first], *between, *records[first:]]))
    found = rows(path, tables)
    monkeypatch.setattr(flow_table, "_UNPACKED", 1)  # packs a flow when the next one is complete
    assert found == rows(path, tables)
    monkeypatch.setattr(flow_table, "completed", lambda flow: [])
    assert found == rows(path, tables)


def test_an_anomaly_of_a_late_packet_takes_back_what_needs_every_byte() -> None:
    row = SessionRecord(
        session="0",
        capture="t.pcap",
        kind="client",
        transport="tcp",
        originator="10.0.0.1:4",
        responder="10.0.0.2:4222",
        first_ns=0,
        last_ns=0,
        start="handshake",
        end="fin",
    )
    row.anomalies = {"unasked_ok": 1}
    note = Note(Direction.RESPONDER, 1, 1, "t.pcap", Anomaly.UNASKED_OK, 0, 0)
    finished = FinishedSession(LastRows([], [note], row))
    finished.pack()
    finished.note(Note(Direction.RESPONDER, 2, 2, "t.pcap", Anomaly.OVERLAP_DIFFERS, 0, 5))
    table = flow_table.FlowTable(Stream)
    for segment in segments_of(closed().records):
        table.add(segment)
    ((flow, _),) = table.deadlines().items()
    last = finished.close(flow)
    assert last.session and last.session.anomalies == {"overlap_differs": 1} and last.notes == []
