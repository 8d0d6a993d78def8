"""Blocks leave the window in the order in which single rows leave it."""

from __future__ import annotations

import random

import pytest

from dissect.nats.engine.connections import ReleaseKey
from dissect.nats.engine.frame_runs import FrameRun, RunLabels
from dissect.nats.engine.session_tables import ReleasedRows
from dissect.nats.engine.time_order import TimeOrder
from dissect.nats.kernel import state
from dissect.nats.kernel.frame_block import FrameBlock, Sender
from dissect.nats.options import Payload
from dissect.nats.output.arrow.frame_columns import sorted_arrays
from dissect.nats.secrets.redact import NO_SECRETS
from dissect.nats.tables import TABLES
from natsync.protocol import Ping

from tests.dissector.kernel.both import KERNEL

pytestmark = KERNEL

np = pytest.importorskip("numpy")

KEYS = ("session", "number", "ts_ns")
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


def runs_of(rows: list[Row], at: int) -> ReleasedRows:
    ts_ns, session, number = rows[0]
    labels = RunLabels(session, "c", "originator", "client", "", Payload.NONE, NO_SECRETS)
    return ReleasedRows(
        ReleaseKey(at), [FrameRun(labels, number, ts_ns, 1, [Ping()] * len(rows), {})]
    )


def block_of(rows: list[tuple[int, Row]], releases: list[ReleasedRows]) -> FrameBlock:
    numbers = np.zeros((state.R_WIDTH, len(rows)), np.int64)
    numbers[state.R_ORDINAL] = [at for at, _ in rows]
    numbers[state.R_TIME] = [row[0] for _, row in rows]
    numbers[state.R_LABEL] = [SESSIONS.index(row[1]) for _, row in rows]
    numbers[state.R_NUMBER] = [row[2] for _, row in rows]
    senders = [Sender(name, "originator", "client", "", NO_SECRETS) for name in SESSIONS]
    return FrameBlock(numbers, [], senders, ["c"], releases)


@pytest.mark.parametrize("group_rows", [1, 90, 10_000])
@pytest.mark.parametrize("jitter", [0, 3, 60])
def test_rows_come_in_the_order_of_the_window(jitter: int, group_rows: int) -> None:
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
                others.append(runs_of(rows, releases.at))
            else:
                own += [(releases.at, row) for row in rows]
        if own:
            source.append(ReleasedRows(ReleaseKey(releases.at), [block_of(own, others)]))
        else:
            source += others
    wanted += window.flush()
    columns = [column for column in TABLES["frames"].columns if column.name in KEYS]
    made = list(sorted_arrays(source, columns, 40, group_rows))
    found = [row for arrays in made for row in zip(*(each.to_pylist() for each in arrays))]
    assert [(ts_ns, session, number) for session, number, ts_ns in found] == wanted
