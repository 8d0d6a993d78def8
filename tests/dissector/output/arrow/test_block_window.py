"""Blocks leave the window in the order in which single rows leave it."""

from __future__ import annotations

import random

import pytest

from dissect.nats.engine.connections import ReleaseKey
from dissect.nats.engine.session_tables import ReleasedRows
from dissect.nats.engine.time_order import TimeOrder
from dissect.nats.kernel import state
from dissect.nats.kernel.frame_block import FrameBlock, Sender
from dissect.nats.output.arrow import block_window
from dissect.nats.output.arrow.records import frame_batches
from dissect.nats.schema.records import FrameRecord, Record
from dissect.nats.secrets.redact import NO_SECRETS

from tests.dissector.kernel.both import KERNEL

pytestmark = KERNEL

np = pytest.importorskip("numpy")

KEYS = ("ts_ns", "session", "number")
SESSIONS = ("0" * 16, "f" * 16)
Row = tuple[int, str, int]


class Releases:
    """Rows by release, as Python and the kernel release them."""

    def __init__(self, jitter: int) -> None:
        self.rng = random.Random(jitter)
        self.jitter = jitter
        self.at = 0
        self.numbers = dict.fromkeys(SESSIONS, 0)

    def next(self) -> list[Row]:
        self.at += 1
        session = self.rng.choice(SESSIONS)
        ts_ns = self.at + self.rng.randrange(self.jitter + 1)
        rows = []
        for _ in range(self.rng.randrange(1, 6)):
            self.numbers[session] += 1
            rows.append((ts_ns, session, self.numbers[session]))
        return rows


def records_of(rows: list[Row], at: int) -> ReleasedRows:
    made: list[Record] = [
        FrameRecord(
            session=session,
            number=number,
            ts_ns=ts_ns,
            packet=1,
            capture="c",
            sender="originator",
            kind="client",
            op="PING",
            total_bytes=6,
            offset=0,
        )
        for ts_ns, session, number in rows
    ]
    return ReleasedRows(ReleaseKey(at), made)


def block_of(rows: list[tuple[int, Row]], releases: list[ReleasedRows]) -> FrameBlock:
    numbers = np.zeros((state.R_WIDTH, len(rows)), np.int64)
    numbers[state.R_ORDINAL] = [at for at, _ in rows]
    numbers[state.R_TIME] = [row[0] for _, row in rows]
    numbers[state.R_LABEL] = [SESSIONS.index(row[1]) for _, row in rows]
    numbers[state.R_NUMBER] = [row[2] for _, row in rows]
    senders = [Sender(name, "originator", "client", "", NO_SECRETS) for name in SESSIONS]
    return FrameBlock(numbers, [], senders, ["c"], releases)


@pytest.mark.parametrize("least", [1, 90, 10_000])
@pytest.mark.parametrize("jitter", [0, 3, 60])
def test_rows_come_in_the_order_of_the_window(
    jitter: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_window, "RELEASED", least)
    releases, window = Releases(jitter), TimeOrder[Row](40)
    wanted: list[Row] = []
    source: list[ReleasedRows] = []
    for part in range(40):
        own: list[tuple[int, Row]] = []
        others = []
        for _ in range(30):
            rows = releases.next()
            wanted += window.put([(row, row) for row in rows])
            if part % 4 == 0 or releases.rng.random() < 0.3:
                others.append(records_of(rows, releases.at))
            else:
                own += [(releases.at, row) for row in rows]
        if own:
            source.append(ReleasedRows(ReleaseKey(releases.at), [block_of(own, others)]))
        else:
            source += others
    wanted += window.flush()
    made = list(frame_batches(source, KEYS, 40))
    found = [row for batch in made for row in zip(*(each.to_pylist() for each in batch))]
    assert found == wanted
