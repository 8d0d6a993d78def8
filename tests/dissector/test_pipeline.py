"""Packets to rows: order, numbers, who opened the connection; and real captures against their witnesses."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from dissect.nats import CaptureReport, FrameRecord, Options, SessionRecord, frames, sessions
from dissect.nats.application.servers import ServerRecord
from dissect.nats.engine.connections import ReleaseKey
from dissect.nats.engine.session_tables import ReleasedRows
from dissect.nats.framing.events import Batch
from dissect.nats.pipeline import narrowed, records, released
from dissect.nats.schema.records import AnomalyRecord, Record
from dissect.nats.types import Direction, Share
from natsync.protocol import Kind

from tests.support.conversations import CONNECT, INFO
from tests.support.damage import drop, duplicate, pcap_bytes, read_pcap, start_at, swap
from tests.support.partitioned import in_one, in_partitions
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import Conversation, Interface
from tests.support.pcapwriter import Record as Written
from tests.support.pcapwriter import pcap_file, pcapng_file
from tests.support.segments import packet_events, segments
from tests.support.sums import closed, kept

TRUTH = json.loads((CAPTURES / "truth.json").read_text())
WITNESSED = sorted(name for name, truth in TRUTH.items() if "connections" in truth)
HIDDEN = {"tls-2.15.1.pcap", "tls-keys-2.15.1.pcap", "snap96.pcap"}


def rows(path: Path) -> list[FrameRecord]:
    return list(frames([str(path)]))


def one(path: Path) -> SessionRecord:
    (record,) = sessions([str(path)])
    return record


def greeted(conversation: Conversation) -> Conversation:
    conversation.handshake().from_server(INFO).from_client(CONNECT + b"PING\r\n").from_server(
        b"PONG\r\n"
    )
    return conversation.from_client(b"PUB a 5\r\nhello\r\n")


def written(tmp_path: Path, *conversations: Conversation) -> Path:
    path = tmp_path / "t.pcap"
    records = sorted(
        (r for conversation in conversations for r in conversation.records),
        key=lambda record: record.ts_ns,
    )
    path.write_bytes(pcap_file(records))
    return path


def test_frames_come_in_order_with_their_places(tmp_path: Path) -> None:
    found = rows(written(tmp_path, greeted(Conversation()).close()))
    assert [row.op for row in found] == ["INFO", "CONNECT", "PING", "PONG", "PUB"]
    assert [row.number for row in found] == [1, 2, 3, 4, 5]
    assert [row.packet for row in found] == [4, 6, 6, 8, 10]
    assert [row.offset for row in found] == [0, 0, len(CONNECT), len(INFO), len(CONNECT) + 6]
    assert len({row.session for row in found}) == 1


def test_ports_say_nothing(tmp_path: Path) -> None:
    record = one(written(tmp_path, greeted(Conversation(server=("10.0.0.2", 80)))))
    assert (record.kind, record.start, record.end) == ("client", "handshake", "open")


def test_a_session_of_which_the_server_was_seen_first(tmp_path: Path) -> None:
    conversation = greeted(Conversation())
    del conversation.records[:6]
    conversation.from_server(b"MSG a 1 0\r\n\r\n").from_client(b"PUB a 0\r\n\r\nPING\r\n")
    conversation.from_server(b"PONG\r\n" * 3).close()
    path = written(tmp_path, conversation)
    record = one(path)
    assert (record.originator, record.responder) == ("10.0.0.1:40000", "10.0.0.2:4222")
    assert (record.kind, record.start, record.end, record.ended_by) == (
        "client",
        "midstream",
        "fin",
        "originator",
    )
    assert {row.sender for row in rows(path) if row.op == "PUB"} == {"originator"}


def test_a_port_that_the_user_knows(tmp_path: Path) -> None:
    conversation = (
        Conversation().handshake().from_client(b"PING\r\n").from_server(b"+PONG\r\n").close()
    )
    path = str(written(tmp_path, conversation))
    assert list(sessions([path])) == []
    (record,) = sessions([path], Options({4222: Kind.CLIENT}))
    assert record.frames_originator == {"PING": 1}


def test_rows_that_had_to_wait_take_their_place(tmp_path: Path) -> None:
    conversation = greeted(Conversation())
    conversation.from_client(b"PUB b 5\r\nhello\r\n", skip=True)
    conversation.from_client(b"garbage PUB c 5\r\nhello\r\n")
    conversation.from_server(b"MSG x 1 0\r\n\r\n").from_client(b"PUB d 0\r\n\r\n").from_client(
        b"PUB e 0\r\n\r\n"
    )
    found = rows(written(tmp_path, conversation))
    assert [row.number for row in found] == list(range(1, len(found) + 1))
    assert [row.ts_ns for row in found] == sorted(row.ts_ns for row in found)


@pytest.mark.parametrize("name", WITNESSED)
def test_real_captures_say_what_their_witnesses_say(name: str) -> None:
    found = {row.originator: row for row in sessions([str(CAPTURES / name)])}
    for originator, truth in TRUTH[name]["connections"].items():
        row = found.pop(originator, None)
        if name in HIDDEN:
            continue
        assert row
        assert row.kind == truth["kind"]
        for side in ("originator", "responder"):
            counts = dict(getattr(row, f"frames_{side}") or {})
            if truth["witness"] == "server":
                counts.pop("INFO", None)
            assert counts == truth.get(side, counts)
        if truth["witness"] == "client":
            assert row.client_name == (truth["name"] if row.auth else None)
            ended = {"closed by server": "responder", "fin": "originator", "rst": "originator"}
            assert row.ended_by == ended.get(truth["end"])
    assert found == {}


@pytest.mark.parametrize("name", [name for name in WITNESSED if TRUTH[name]["totals"]])
def test_real_links_say_what_the_servers_traced(name: str) -> None:
    found = list(sessions([str(CAPTURES / name)]))
    for kind, sides in TRUTH[name]["totals"].items():
        for side, expected in sides.items():
            counts: Counter[str] = Counter()
            for row in found:
                if row.kind == kind:
                    counts.update(getattr(row, f"frames_{side}") or {})
            del counts["INFO"]
            assert counts in (expected, {}) and (counts or "s2" in name)


def test_what_hides_nats_is_named() -> None:
    tls = one(CAPTURES / "tls-2.15.1.pcap")
    assert (tls.transport, tls.kind, tls.frames_responder) == ("tls", "client", {"INFO": 1})
    assert tls.skipped_bytes > 1000 and tls.anomalies is None
    websocket = one(CAPTURES / "websocket-2.15.1.pcap")
    assert (websocket.transport, websocket.kind) == ("websocket", "client")
    names = [str(CAPTURES / "leafnode-s2-2.15.1.pcap")]
    assert ["s2"] == [row.compression for row in sessions(names) if row.kind == "leafnode"]


def everything(path: Path) -> dict[tuple[str, str, int], tuple[object, ...]]:
    """Frames by session, sender and place."""
    return {
        (row.session, row.sender, row.offset): (row.op, row.subject, row.payload, row.total_bytes)
        for row in rows(path)
    }


def shapes(path: Path) -> Counter[tuple[str, str | None, int]]:
    """What frames there are, wherever they stand."""
    return Counter((row.op, row.subject, row.total_bytes) for row in rows(path))


@pytest.mark.parametrize("name", ["core-2.15.1.pcap", "cluster-2.15.1.pcap", "gateway-2.9.10.pcap"])
def test_losses_invent_nothing_and_leave_the_sums_closed(name: str, tmp_path: Path) -> None:
    whole = read_pcap((CAPTURES / name).read_bytes())
    known = shapes(CAPTURES / name)
    path = tmp_path / name
    for first in range(5, 25, 5):
        kept = drop(whole.records, set(range(first + 8, len(whole.records), 40)))
        path.write_bytes(pcap_bytes(whole.with_records(kept)))
        found = shapes(path)
        assert found.total() > 0.9 * known.total()
        assert not found - known
        check_sums(path)


def test_what_the_loss_took_is_missing_and_nothing_else() -> None:
    """Offsets do not shift: every frame of the damaged capture is one of the original, and those that
    are not there overlap a packet that was dropped."""
    truth = everything(CAPTURES / "bulk-2.15.1.pcap")
    damaged = everything(CAPTURES / "damaged-loss-reorder.pcap")
    assert damaged.items() <= truth.items()
    lost = {place: frame for place, frame in truth.items() if place not in damaged}
    gaps = TRUTH["damaged-loss-reorder.pcap"]["dropped"]
    for (_, _, offset), frame in lost.items():
        size = frame[3]
        assert isinstance(size, int)
        assert any(
            offset < gap["offset"] + gap["bytes"] and gap["offset"] < offset + size for gap in gaps
        )


def test_reordering_and_repetition_change_nothing(tmp_path: Path) -> None:
    whole = read_pcap((CAPTURES / "core-2.15.1.pcap").read_bytes())
    records = list(whole.records)
    for at in range(60, 200, 20):
        records = duplicate(swap(records, at, at + 1), at + 5, 3)
    path = tmp_path / "core-2.15.1.pcap"
    path.write_bytes(pcap_bytes(whole.with_records(records)))
    assert everything(path) == everything(CAPTURES / "core-2.15.1.pcap")


@pytest.mark.parametrize("name", ["core-2.9.10.pcap", "leafcluster-2.15.1.pcap"])
def test_starting_anywhere_invents_nothing(name: str, tmp_path: Path) -> None:
    whole = read_pcap((CAPTURES / name).read_bytes())
    known = shapes(CAPTURES / name)
    path = tmp_path / name
    for first in range(3, len(whole.records) - 5, 23):
        path.write_bytes(pcap_bytes(whole.with_records(start_at(whole.records, first))))
        assert not shapes(path) - known
        check_sums(path)


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.pcap*")), ids=lambda path: path.name)
def test_the_sums_close(path: Path) -> None:
    check_sums(path)


@kept()
def check_sums(path: Path) -> None:
    """Per direction: span = framed + skipped + missing + unfinished; and framed is the frames' bytes,
    but for the holes in them. Where a layer lies below NATS, both have sums of their own."""
    sizes: Counter[tuple[object, Direction]] = Counter()
    groups = packet_events(segments([str(path)]), Options())
    for conversation, events in (pair for group in groups for pair in group.connections):
        for event in events:
            if isinstance(event, Batch):
                way = event.direction
                sizes[conversation, way] += sum(frame.total_bytes for frame in event.frames)
        if not (conversation.over and conversation.is_nats):
            continue
        for way in Direction:
            counts = closed(conversation.framing, way, conversation.flow.side(way).stream)
            assert counts.framed <= sizes[conversation, way] <= counts.framed + counts.missing


def test_secrets_of_the_samples_are_nowhere() -> None:
    text = " ".join(
        str(row)
        for path in sorted(CAPTURES.glob("*.pcap*"))
        for source in (frames([str(path)]), sessions([str(path)]))
        for row in source
    )
    for secret in ("s3cret", "hunter2", "m0ney", "t0ken-for-all", "wr0ng"):
        assert secret not in text


def test_a_report_tells_what_was_read() -> None:
    report = CaptureReport()
    list(sessions([str(CAPTURES / "core-2.15.1.pcap")], report=report))
    (file,) = report.files
    assert file.packets == TRUTH["core-2.15.1.pcap"]["packets"]


def some_rows(times: list[int]) -> list[ReleasedRows]:
    """A row a time, each released by itself."""
    return [
        ReleasedRows(
            ReleaseKey(ts_ns),
            [
                AnomalyRecord(
                    session="s",
                    ts_ns=ts_ns,
                    packet=ts_ns,
                    sender="responder",
                    anomaly="loss",
                    offset=0,
                    bytes=1,
                )
            ],
        )
        for ts_ns in times
    ]


@pytest.mark.parametrize("live", [False, True])
def test_narrowed_rows_stay_in_their_releases(live: bool) -> None:
    asked: list[int] = []

    def keep(rows: list[Record]) -> list[Record]:
        asked.append(len(rows))
        return [row for row in rows if isinstance(row, AnomalyRecord) and row.ts_ns % 2]

    source = some_rows([*range(5000)])
    assert list(narrowed(source, keep, live)) == source[1::2]
    assert sum(asked) == 5000 and (max(asked) == 1) == live


def test_live_rows_are_narrowed_as_they_come() -> None:
    source = iter(some_rows([1, 2]))
    found = narrowed(source, lambda rows: rows, live=True)
    assert next(found).release.packet == 1
    assert next(source).release.packet == 2


def test_shares_are_the_whole() -> None:
    path = str(CAPTURES / "core-2.15.1.pcap")
    beats: list[int] = []
    parts = [
        list(released([path], ["flows"], share=Share(k, range(3)), on_progress=beats.append))
        for k in range(3)
    ]
    assert sorted(row for part in parts for row in part) == list(released([path], ["flows"]))
    assert max(beats) == TRUTH["core-2.15.1.pcap"]["packets"]


def test_times_before_1970(tmp_path: Path) -> None:
    """pcapng can write them, with the offset of an interface: no row is cut to the year 1970."""
    pcap = read_pcap((CAPTURES / "cluster-2.15.1.pcap").read_bytes())
    before_ns, path = 2 * pcap.records[0].ts_ns, tmp_path / "early.pcapng"
    early = [Written(each.ts_ns - before_ns, each.data, each.length) for each in pcap.records]
    offset = early[0].ts_ns // 10**9 - 1
    path.write_bytes(pcapng_file(early, [Interface(pcap.linktype, tsresol=9, tsoffset=offset)]))
    usual = list(frames([str(CAPTURES / "cluster-2.15.1.pcap")]))
    assert [row.ts_ns for row in rows(path)] == [row.ts_ns - before_ns for row in usual]
    assert in_partitions([str(path)], 20_000) == in_one([str(path)])
    found = records([str(path)], ["servers"])
    assert {row.server_name for row in found if isinstance(row, ServerRecord)} == {
        "shop-1",
        "shop-2",
        "shop-3",
    }
