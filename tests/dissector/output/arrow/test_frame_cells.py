"""Cells of frames: they are taken at once, and the frames are free."""

from __future__ import annotations

import gc

import pytest

from dissect.nats.engine.frame_runs import FrameRun, RunLabels, RunMaker
from dissect.nats.options import Payload
from dissect.nats.output.arrow.frame_cells import FrameCells
from dissect.nats.secrets.redact import NO_SECRETS
from dissect.nats.tables import TABLES
from natsync.protocol import Frame, Ping, Pub, RMsg

from tests.support.conversations import ORIGINATOR, FramedConversation


def runs(conversation: FramedConversation, payload: Payload = Payload.NONE) -> list[FrameRun]:
    maker = RunMaker("5" * 16, payload, True)
    return [
        run for each in conversation.batches(ORIGINATOR) for run in maker.runs(each, "client", "")
    ]


def run_of(frames: list[Frame], account: str = "") -> FrameRun:
    labels = RunLabels("s", "c", "originator", "route", account, Payload.NONE, NO_SECRETS)
    return FrameRun(labels, 1, 1, 1, frames, {})


def cells_of(names: str) -> FrameCells:
    return FrameCells([each for each in TABLES["frames"].columns if each.name in names.split()])


def test_cells_are_packed_by_class_of_frame() -> None:
    conversation = (
        FramedConversation().client().say(ORIGINATOR, b"PUB a r 2\r\nhi\r\nPING\r\nPUB b 0\r\n\r\n")
    )
    cells = cells_of("ts_ns subject reply payload_bytes headers")
    cells.add(runs(conversation))
    assert (cells.rows, cells.sizes, cells.numbers.array().to_pylist()) == (4, [1, 3], [1, 2])
    by_op = {each.op: each for each in cells.classes}
    assert [cells.classes[code].op for code in cells.codes] == ["CONNECT", "PUB", "PING", "PUB"]
    columns = by_op["PUB"].columns
    assert {name: column.cells.array().to_pylist() for name, column in columns.items()} == {
        "subject": ["a", "b"],
        "reply": ["r", None],
        "payload_bytes": [2, 0],
    }
    assert by_op["PING"].columns == {} and cells.text_bytes == 3
    assert cells.record_rows == [0]  # CONNECT


def test_nothing_refers_to_the_frames_afterwards() -> None:
    frames: list[Frame] = [Pub(b"a", b"", b"x")]
    cells = cells_of("subject payload_bytes")
    cells.add([run_of(frames)])
    assert gc.get_referrers(frames[0]) == [frames]


def test_the_account_of_a_dedicated_route_is_that_of_frames_that_may_name_one() -> None:
    frames: list[Frame] = [RMsg(b"s", b""), Ping(), RMsg(b"s", b"B")]
    cells = cells_of("account")
    cells.add([run_of(frames[:1])])
    cells.add([run_of(frames, "A"), run_of(frames[:1])])
    of_rmsg = cells.classes[0]
    assert (of_rmsg.op, of_rmsg.count) == ("RMSG", 4)
    assert of_rmsg.columns["account"].cells.array().to_pylist() == [None, "A", "B", None]


@pytest.mark.parametrize("payload, rows", [(Payload.NONE, [0, 2]), (Payload.TEXT, [0, 1, 2])])
def test_records_are_made_of_frames_that_have_more_to_say(
    payload: Payload, rows: list[int]
) -> None:
    conversation = FramedConversation().client().say(ORIGINATOR, b"PUB a 2\r\nhi\r\n")
    conversation.say(ORIGINATOR, b"HPUB b 12 12\r\nNATS/1.0\r\n\r\n\r\n")
    cells = cells_of("headers payload")
    cells.add(runs(conversation, payload))
    assert cells.record_rows == rows
