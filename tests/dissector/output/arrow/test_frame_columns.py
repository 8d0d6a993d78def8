"""Columns made of runs of frames are those made of their records, in the same order: in every sample, for
every payload."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from dissect.nats.engine.connections import ReleaseKey
from dissect.nats.engine.frame_rows import rows_of
from dissect.nats.engine.frame_runs import FrameRun, RunLabels, RunMaker
from dissect.nats.engine.session_tables import ReleasedRows
from dissect.nats.engine.time_order import TimeOrder, placed
from dissect.nats.errors import MissingLibrary
from dissect.nats.options import Options, Payload
from dissect.nats.output.arrow.frame_columns import sorted_arrays
from dissect.nats.output.arrow.records import batch, frame_batches
from dissect.nats.output.arrow.types import pyarrow
from dissect.nats.pipeline import records, released
from dissect.nats.schema.records import FrameRecord, Record
from dissect.nats.secrets.redact import NO_SECRETS
from dissect.nats.tables import TABLES
from natsync.protocol import Ping, RMsg

from tests.support.conversations import ORIGINATOR, FramedConversation
from tests.support.paths import CAPTURES
from tests.support.requirements import missing

if TYPE_CHECKING:
    import pyarrow as pa

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))

KEYS = ("session", "number", "ts_ns", "op")
SAMPLES = sorted(path.name for path in CAPTURES.iterdir() if ".pcap" in path.name)


@pytest.mark.parametrize("payload", [Payload.NONE, Payload.TEXT])
@pytest.mark.parametrize("name", SAMPLES)
def test_batches_have_the_rows_of_the_records_in_their_order(name: str, payload: Payload) -> None:
    path, options = str(CAPTURES / name), Options(payload=payload)
    source = released([path], ["frames"], options, together=True, runs=True)
    made = pyarrow().Table.from_batches(frame_batches(source), batch("frames", []).schema)
    made.validate(full=True)
    wanted = batch("frames", list(records([path], ["frames"], options)))
    assert made.equals(pyarrow().Table.from_batches([wanted]))


def one_run(ts_ns: int, session: str, number: int, frames: int) -> FrameRun:
    pings = [Ping() for _ in range(frames)]
    labels = RunLabels(session, "c", "originator", "client", "", Payload.NONE, NO_SECRETS)
    return FrameRun(labels, number, ts_ns, 1, pings, {})


@pytest.mark.parametrize("group_rows", [1, 90, 10_000])
@pytest.mark.parametrize("jitter", [0, 3, 60])
def test_rows_come_in_the_order_of_the_window(jitter: int, group_rows: int) -> None:
    rng = random.Random(7)
    numbers = {"s": 1, "t": 1}
    window = TimeOrder[Record](40)
    wanted: list[Record] = []
    releases = []
    for at in range(600):
        some: list[FrameRun] = []
        for session in rng.choice(("s", "t", "st", "ts")):
            frames = rng.randrange(1, 9)
            ts_ns = at + rng.randrange(jitter + 1)
            some.append(one_run(ts_ns, session, numbers[session], frames))
            numbers[session] += frames
        releases.append(ReleasedRows(ReleaseKey(at), [*some]))
        wanted += window.put(placed(row for run in some for row in rows_of(run)))
    wanted += window.flush()
    columns = [column for column in TABLES["frames"].columns if column.name in KEYS]
    made = list(sorted_arrays(releases, columns, 40, group_rows))
    rows = [row for arrays in made for row in zip(*(each.to_pylist() for each in arrays))]
    assert rows == [tuple(getattr(row, name) for name in KEYS) for row in wanted]
    assert max(len(arrays[0]) for arrays in made) <= group_rows + 40


def runs(conversation: FramedConversation) -> list[FrameRun]:
    maker = RunMaker("5" * 16, Payload.NONE, True)
    return [
        run for each in conversation.batches(ORIGINATOR) for run in maker.runs(each, "client", "")
    ]


def columns_of(runs: list[FrameRun], names: list[str]) -> pa.RecordBatch:
    (made,) = frame_batches([ReleasedRows(ReleaseKey(1), [*runs])], names)
    return made


def rows_in(runs: list[FrameRun]) -> list[FrameRecord]:
    return [row for run in runs for row in rows_of(run)]


def test_bytes_that_are_no_utf8_stay_visible() -> None:
    conversation = (
        FramedConversation().client().say(ORIGINATOR, b"PUB gr\xc3\xbc\xc3\x9fe 0\r\n\r\n")
    )
    conversation.say(ORIGINATOR, b"PUB \xff\xed\xa0\x80 r\xfe 0\r\n\r\n")
    made = columns_of(runs(conversation), ["subject", "reply"])
    assert made.to_pylist()[1:] == [
        {"subject": "gr\xfc\xdfe", "reply": None},
        {"subject": "\\xff\\xed\\xa0\\x80", "reply": "r\\xfe"},
    ]


def test_a_route_that_is_dedicated_to_an_account_names_it_where_a_frame_may() -> None:
    frames = [RMsg(b"s", b""), Ping(), RMsg(b"s", b"B")]
    labels = RunLabels("s", "c", "originator", "route", "A", Payload.NONE, NO_SECRETS)
    run = FrameRun(labels, 1, 1, 1, frames, {})
    made = columns_of([run], ["account"])
    assert made.column("account").to_pylist() == ["A", None, "B"]
    assert made == batch("frames", rows_in([run]), ["account"])


def test_columns_in_any_order_and_number() -> None:
    conversation = (
        FramedConversation()
        .client()
        .say(ORIGINATOR, b"SUB a q 7\r\nUNSUB 7 99999999999999999999\r\n")
    )
    made = columns_of(runs(conversation), ["max_msgs", "number", "time", "queue"])
    assert made.column_names == ["max_msgs", "number", "time", "queue"]
    assert made == batch(
        "frames", rows_in(runs(conversation)), ["max_msgs", "number", "time", "queue"]
    )
