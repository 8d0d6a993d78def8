"""Columns made of runs of frames are those made of their records, in the same order: in every sample, for
every payload."""

from __future__ import annotations

import random

import pytest

from dissect.nats.engine.connections import SortKey
from dissect.nats.engine.frame_rows import expanded
from dissect.nats.engine.frame_runs import FrameRun, RunMaker
from dissect.nats.engine.session_tables import Rows
from dissect.nats.engine.time_order import TimeOrder, place_of
from dissect.nats.errors import MissingLibrary
from dissect.nats.options import Options, Payload
from dissect.nats.output.arrow import batch, frame_batches
from dissect.nats.output.arrow_types import pyarrow
from dissect.nats.output.frame_columns import sorted_arrays
from dissect.nats.pipeline import record_lists, records, released
from dissect.nats.records import Record
from dissect.nats.tables import TABLES
from natsync.protocol import Ping, RMsg

from tests.support.conversations import ORIGINATOR, Said
from tests.support.paths import CAPTURES
from tests.support.requirements import missing

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))

KEYS = ("session", "number", "ts_ns", "op")
SAMPLES = sorted(path.name for path in CAPTURES.iterdir() if ".pcap" in path.name)


@pytest.mark.parametrize("payload", [Payload.NONE, Payload.TEXT])
@pytest.mark.parametrize("name", SAMPLES)
def test_columns_are_those_of_the_records(name: str, payload: Payload) -> None:
    for some in record_lists([str(CAPTURES / name)], ["frames"], Options(payload=payload)):
        assert some[0].__class__ is FrameRun
        made = batch("frames", some)
        made.validate(full=True)
        assert made == batch("frames", expanded(some))


@pytest.mark.parametrize("name", SAMPLES)
def test_batches_have_the_rows_of_the_records_in_their_order(name: str) -> None:
    path = str(CAPTURES / name)
    source = released([path], ["frames"], together=True, runs=True)
    made = pyarrow().Table.from_batches(frame_batches(source), batch("frames", []).schema)
    wanted = batch("frames", list(records([path], ["frames"])))
    assert made.equals(pyarrow().Table.from_batches([wanted]))


def one_run(ts_ns: int, session: str, number: int, frames: int) -> FrameRun:
    pings = [Ping() for _ in range(frames)]
    return FrameRun(
        session, number, ts_ns, 1, "c", "originator", "client", "", pings, Payload.NONE, {}
    )


@pytest.mark.parametrize("jitter", [0, 3, 60])
def test_rows_come_in_the_order_of_the_window(jitter: int) -> None:
    dice = random.Random(7)
    numbers = {"s": 1, "t": 1}
    window = TimeOrder[Record](40)
    wanted: list[Record] = []
    releases = []
    for at in range(600):
        some: list[Record] = []
        for session in dice.choice(("s", "t", "st", "ts")):
            frames = dice.randrange(1, 9)
            ts_ns = at + dice.randrange(jitter + 1)
            some.append(one_run(ts_ns, session, numbers[session], frames))
            numbers[session] += frames
        releases.append(Rows(SortKey(at), some))
        wanted += window.put([(place_of(row), row) for row in expanded(some)])
    wanted += window.flush()
    columns = [column for column in TABLES["frames"].columns if column.name in KEYS]
    made = list(sorted_arrays(releases, columns, 40))
    rows = [row for arrays in made for row in zip(*(each.to_pylist() for each in arrays))]
    assert rows == [tuple(getattr(row, name) for name in KEYS) for row in wanted]
    assert max(len(arrays[0]) for arrays in made) <= 40


def runs(said: Said) -> list[FrameRun]:
    maker = RunMaker("5" * 16, Payload.NONE, True)
    return [run for each in said.batches(ORIGINATOR) for run in maker.runs(each, "client", "")]


def test_bytes_that_are_no_utf8_stay_visible() -> None:
    said = Said().client().say(ORIGINATOR, b"PUB gr\xc3\xbc\xc3\x9fe 0\r\n\r\n")
    said.say(ORIGINATOR, b"PUB \xff\xed\xa0\x80 r\xfe 0\r\n\r\n")
    made = batch("frames", runs(said), ["subject", "reply"])
    assert made.to_pylist()[1:] == [
        {"subject": "gr\xfc\xdfe", "reply": None},
        {"subject": "\\xff\\xed\\xa0\\x80", "reply": "r\\xfe"},
    ]


def test_a_route_that_is_dedicated_to_an_account_names_it_where_a_frame_may() -> None:
    frames = [RMsg(b"s", b""), Ping(), RMsg(b"s", b"B")]
    run = FrameRun("s", 1, 1, 1, "c", "originator", "route", "A", frames, Payload.NONE, {})
    made = batch("frames", [run], ["account"])
    assert made.column("account").to_pylist() == ["A", None, "B"]
    assert made == batch("frames", expanded([run]), ["account"])


def test_columns_in_any_order_and_number() -> None:
    said = Said().client().say(ORIGINATOR, b"SUB a q 7\r\nUNSUB 7 99999999999999999999\r\n")
    made = batch("frames", runs(said), ["max_msgs", "number", "time", "queue"])
    assert made.column_names == ["max_msgs", "number", "time", "queue"]
    assert made == batch("frames", expanded(runs(said)), ["max_msgs", "number", "time", "queue"])
