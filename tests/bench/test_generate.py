"""The captures that are measured: what is in them is known, and the dissector agrees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import pytest

from dissect.nats import flows, frames, sessions
from dissect.nats.application.services import ServiceRecord
from dissect.nats.pipeline import records
from dissect.nats.schema.records import FlowRecord, FrameRecord, SessionRecord
from dissect.nats.tables import TABLE_OF

from tests.bench.generate import Plan, main, write, write_file
from tests.support.damage import read_pcap

PACKETS = 5000
REPEATING = pytest.mark.parametrize("repeating", [False, True], ids=["unique", "repeating"])


def written(plan: Plan) -> bytes:
    file = BytesIO()
    write(file, plan)
    return file.getvalue()


def counted(rows: Iterable[SessionRecord]) -> Counter[str]:
    """How many frames of each kind sessions have that lost nothing."""
    found: Counter[str] = Counter()
    for row in rows:
        assert row.skipped_bytes == row.missing_bytes == 0
        found.update(row.frames_originator or {})
        found.update(row.frames_responder or {})
    return found


@pytest.mark.parametrize("clients", [4, 40])
@REPEATING
def test_what_is_in_it_is_known(tmp_path: Path, clients: int, repeating: bool) -> None:
    path = tmp_path / "t.pcap"
    written = write_file(path, Plan(PACKETS, clients=clients, repeating=repeating))
    assert counted(sessions([str(path)])) == written.frames
    assert {"PUB", "HPUB", "MSG", "HMSG", "RMSG", "SUB", "RS+"} < set(written.frames)
    records = read_pcap(path.read_bytes()).records
    assert len(records) == written.packets and PACKETS <= written.packets < PACKETS + 300
    assert path.stat().st_size == written.file_bytes
    assert max(len(record.data) for record in records) == 1448 + 66
    rows = list(flows([str(path)]))
    assert len(rows) == written.connections >= clients + 1
    assert sum(row.packets_originator + row.packets_responder for row in rows) == written.packets


def lines(plan: Plan, folder: Path) -> Counter[tuple[object, ...]]:
    """How often each control line of a message occurs in a capture."""
    write_file(folder / "t.pcap", plan)
    return Counter(
        (row.op, row.subject, row.reply, row.sid, row.total_bytes)
        for row in frames([str(folder / "t.pcap")])
        if row.op in ("PUB", "HPUB", "MSG", "HMSG", "RMSG")
    )


def test_control_lines_are_unique_unless_they_shall_repeat(tmp_path: Path) -> None:
    unique, repeating = (
        lines(Plan(PACKETS, repeating=repeating), tmp_path) for repeating in (False, True)
    )
    assert set(unique.values()) == {1}
    assert len({bytes for *_, bytes in unique}) > 1000
    assert len({reply for _, _, reply, *_ in unique}) > 700
    assert len(repeating) < repeating.total() / 2


def test_stored_messages_are_acknowledged_once(tmp_path: Path) -> None:
    write_file(tmp_path / "t.pcap", Plan(PACKETS))
    rows = list(frames([str(tmp_path / "t.pcap")]))
    delivered = [
        row.reply for row in rows if row.op == "MSG" and (row.reply or "").startswith("$JS")
    ]
    acknowledged = [row.subject for row in rows if row.op == "PUB" and row.subject in delivered]
    assert len(delivered) > 300
    assert acknowledged == delivered


ABOVE_FRAMES = ("api", "publishes", "deliveries", "pulls", "kv", "objects")


def made(path: Path) -> Counter[str]:
    """How many rows the tables above the frames have."""
    return Counter(TABLE_OF[row.__class__].name for row in records([str(path)], ABOVE_FRAMES))


def test_jetstream_has_the_rows_that_are_known(tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    written = write_file(path, Plan(PACKETS, jetstream=True))
    assert counted(sessions([str(path)])) == written.frames
    assert made(path) == written.rows and written.rows.keys() == set(ABOVE_FRAMES)
    services = [row for row in records([str(path)], ["services"]) if isinstance(row, ServiceRecord)]
    assert {row.subject for row in services} == {"prices.get"}
    assert sum(row.errors for row in services) > 5


def test_jetstream_with_losses_has_no_row_too_many(tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    written = write_file(path, Plan(PACKETS, jetstream=True, loss=0.05))
    assert made(path) < written.rows and written.lost > 10


def test_the_same_plan_makes_the_same_capture() -> None:
    assert written(Plan(PACKETS)) == written(Plan(PACKETS))
    assert written(Plan(PACKETS)) != written(Plan(PACKETS, seed=2))


def test_order_and_repetition_change_no_frame(tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    written = write_file(path, Plan(PACKETS, reordered=0.02, duplicated=0.02))
    assert counted(sessions([str(path)])) == written.frames
    assert sum(row.retransmitted_bytes + row.duplicate_bytes for row in sessions([str(path)])) > 0


def test_losses_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    written = write_file(path, Plan(PACKETS, loss=0.02))
    rows = list(sessions([str(path)]))
    found = sum(
        (Counter(row.frames_originator) + Counter(row.frames_responder) for row in rows),
        Counter[str](),
    )
    assert written.lost > 10 and sum(row.missing_bytes for row in rows) > 0
    assert found < written.frames


@pytest.mark.parametrize(
    "heavy, equal, repeating",
    [(0.9, 1, False), (0.9, 8, False), (0.9, 8, True), (1.0, 8, False), (0.5, 2, False)],
)
def test_so_many_connections_carry_a_share_of_the_bytes(
    tmp_path: Path, heavy: float, equal: int, repeating: bool
) -> None:
    path = tmp_path / "t.pcap"
    # So many that the last message of each of them is a small part of its bytes.
    enough = 3000 * max(equal, 2)
    written = write_file(path, Plan(enough, repeating=repeating, heavy=heavy, equal=equal))
    made = list(records([str(path)], ("flows", "sessions", "frames")))
    assert counted(row for row in made if isinstance(row, SessionRecord)) == written.frames
    assert {"PUB", "HPUB", "MSG", "HMSG", "SUB"} < set(written.frames)
    rows = [row for row in made if isinstance(row, FlowRecord)]
    packets = sum(row.packets_originator + row.packets_responder for row in rows)
    assert packets == written.packets
    carried = [
        row.bytes_originator
        + row.bytes_responder
        + 66 * (row.packets_originator + row.packets_responder)
        for row in rows
    ]
    whole, most = sum(carried), sorted(carried)[-equal:]
    assert sum(most) / whole == pytest.approx(heavy, abs=0.02)
    assert most[0] == pytest.approx(most[-1], rel=0.02)
    assert sum(row.anomalies is not None for row in made if isinstance(row, FrameRecord)) == 0


def test_who_carries_much_does_so_the_same_way_each_time() -> None:
    plan = Plan(PACKETS, heavy=0.9, equal=3)
    assert written(plan) == written(plan) != written(Plan(PACKETS, heavy=0.9))


def test_the_command_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.pcap"
    assert main([str(path), "1000", "--clients", "8", "--loss", "0.5"]) == 0
    packets, summary = capsys.readouterr().out.split(" packets, ")
    assert int(packets) == len(read_pcap(path.read_bytes()).records) >= 1000
    assert not summary.rstrip().endswith(" 0 lost")
