"""Columns that several processes made are those of one process, in the same order."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from dissect.nats.engine.connections import ReleaseKey
from dissect.nats.engine.frame_rows import rows_of
from dissect.nats.engine.frame_runs import FrameRun, RunLabels
from dissect.nats.engine.session_tables import ReleasedRows
from dissect.nats.engine.time_order import TimeOrder, placed
from dissect.nats.errors import MissingLibrary
from dissect.nats.options import Options, Payload
from dissect.nats.output.arrow import shared_frames
from dissect.nats.output.arrow.records import frame_batches, schema
from dissect.nats.output.arrow.shared_frames import Part, SharedFrames, pack
from dissect.nats.output.arrow.types import pyarrow
from dissect.nats.pipeline import released
from dissect.nats.schema.records import Record
from dissect.nats.secrets.redact import NO_SECRETS
from dissect.nats.tables import TABLES
from natsync.protocol import Ping

from tests.support.paths import CAPTURES
from tests.support.requirements import missing

if TYPE_CHECKING:
    import pyarrow as pa

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))

KEYS = ("session", "number", "ts_ns", "op")


def parts(
    releases: Sequence[ReleasedRows], size: int, columns: Sequence[str] | None
) -> Iterator[Part]:
    """The parts of one process, which packed so many releases at a time."""
    for at in range(0, len(releases), size):
        part = pack(releases[at : at + size], columns)
        yield pickle.loads(pickle.dumps(part)), part.last_packet
        yield None, part.last_packet


def together(
    shares: Sequence[Sequence[ReleasedRows]],
    reach: int,
    size: int,
    group_rows: int = 90,
    columns: Sequence[str] | None = None,
) -> list[pa.RecordBatch]:
    frames = SharedFrames(reach, group_rows)
    return list(frames.in_order([parts(share, size, columns) for share in shares]))


@pytest.mark.parametrize("payload", [Payload.NONE, Payload.TEXT])
@pytest.mark.parametrize("name", sorted(path.name for path in CAPTURES.glob("*-2.15.1.pcap"))[::3])
def test_every_row_of_a_sample_is_the_same(name: str, payload: Payload) -> None:
    path, options = str(CAPTURES / name), Options(payload=payload)
    source = released([path], ["frames"], options, together=True, runs=True)
    expected = pyarrow().Table.from_batches(frame_batches(source), schema("frames"))
    for jobs in (2, 3):
        shares = [
            list(released([path], ["frames"], options, share=(number, jobs), runs=True))
            for number in range(jobs)
        ]
        made = together(shares, TABLES["frames"].window, 5)
        assert pyarrow().Table.from_batches(made, schema("frames")).equals(expected)


@pytest.mark.parametrize("group_rows", [1, 90, 10_000])
@pytest.mark.parametrize("jitter", [0, 3, 60])
def test_rows_come_in_the_order_of_the_window(jitter: int, group_rows: int) -> None:
    rng = random.Random(7)
    numbers = {"s": 1, "t": 1, "u": 1}
    shares: dict[str, list[ReleasedRows]] = {session: [] for session in numbers}
    window = TimeOrder[Record](40)
    wanted: list[Record] = []
    for at in range(600):
        # A packet may end connections of other shares: their releases come before its own.
        group = []
        for session in rng.choice(("s", "t", "su", "ts")):
            frames = rng.randrange(1, 9)
            ts_ns = at + rng.randrange(jitter + 1)
            labels = RunLabels(session, "c", "originator", "client", "", Payload.NONE, NO_SECRETS)
            run = FrameRun(labels, numbers[session], ts_ns, 1, [Ping() for _ in range(frames)], {})
            numbers[session] += frames
            group.append((ReleaseKey(at, len(group), session), run))
        for key, run in group:
            shares[key.session].append(ReleasedRows(key, [run]))
            wanted += window.put(placed(rows_of(run)))
    wanted += window.flush()
    made = together([*shares.values()], 40, 7, group_rows, KEYS)
    rows = [tuple(row.values()) for batch in made for row in batch.to_pylist()]
    assert rows == [tuple(getattr(row, name) for name in KEYS) for row in wanted]
    assert max(batch.num_rows for batch in made) <= group_rows + 40


def test_rows_with_many_bytes_make_smaller_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_frames, "_MOST_BYTES", 1)
    path = str(CAPTURES / "core-2.15.1.pcap")
    source = list(released([path], ["frames"], Options(), runs=True))
    made = together([source], 10, 5, 10_000)
    assert len(made) > 5 and sum(len(batch) for batch in made) > 10 * len(made) // 2
