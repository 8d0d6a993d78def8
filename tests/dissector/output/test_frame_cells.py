"""Cells of frames: they are taken at once, and the frames are free."""

from __future__ import annotations

import gc

import pytest

from dissect.nats.engine.frame_runs import FrameRun, RunMaker
from dissect.nats.options import Payload
from dissect.nats.output.frame_cells import FrameCells
from natsync.protocol import Frame, Ping, Pub, RMsg

from tests.support.conversations import ORIGINATOR, Said


def runs(said: Said, payload: Payload = Payload.NONE) -> list[FrameRun]:
    maker = RunMaker("5" * 16, payload, True)
    return [run for each in said.batches(ORIGINATOR) for run in maker.runs(each, "client", "")]


def run_of(frames: list[Frame], account: str = "") -> FrameRun:
    return FrameRun("s", 1, 1, 1, "c", "originator", "route", account, frames, Payload.NONE, {})


def test_cells_are_lists_by_class_of_frame() -> None:
    said = Said().client().say(ORIGINATOR, b"PUB a r 2\r\nhi\r\nPING\r\nPUB b 0\r\n\r\n")
    cells = FrameCells(["ts_ns", "subject", "reply", "payload_bytes", "headers"])
    cells.add(runs(said))
    assert (cells.rows, cells.sizes, cells.numbers) == (4, [1, 3], [1, 2])
    assert cells.rows_of[Pub] == [1, 3] and cells.rows_of[Ping] == [2]
    assert {name: column.cells for name, column in cells.columns_of[Pub].items()} == {
        "subject": [b"a", b"b"],
        "reply": [b"r", None],
        "payload_bytes": [2, 0],
    }
    assert cells.columns_of[Ping] == {}
    assert list(cells.records) == [0]  # CONNECT


def test_nothing_refers_to_the_frames_afterwards() -> None:
    frames: list[Frame] = [Pub(b"a", b"", b"x")]
    cells = FrameCells(["subject", "payload_bytes"])
    cells.add([run_of(frames)])
    assert gc.get_referrers(frames[0]) == [frames]


def test_the_account_of_a_dedicated_route_is_that_of_frames_that_may_name_one() -> None:
    frames: list[Frame] = [RMsg(b"s", b""), Ping(), RMsg(b"s", b"B")]
    cells = FrameCells(["account"])
    cells.add([run_of(frames[:1])])
    cells.add([run_of(frames, "A"), run_of(frames[:1])])
    assert cells.columns_of[RMsg]["account"].cells == [None, b"A", b"B", None]


@pytest.mark.parametrize("payload, rows", [(Payload.NONE, [0, 2]), (Payload.TEXT, [0, 1, 2])])
def test_records_are_made_of_frames_that_have_more_to_say(
    payload: Payload, rows: list[int]
) -> None:
    said = Said().client().say(ORIGINATOR, b"PUB a 2\r\nhi\r\n")
    said.say(ORIGINATOR, b"HPUB b 12 12\r\nNATS/1.0\r\n\r\n\r\n")
    cells = FrameCells(["headers", "payload"])
    cells.add(runs(said, payload))
    assert sorted(cells.records) == rows
