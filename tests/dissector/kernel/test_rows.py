"""Rows of the kernel wait for many others only if they may, and those of Python wait with them."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest

from dissect.nats import Options
from dissect.nats.capture import CaptureReport, reader
from dissect.nats.engine.session_tables import ReleasedRows
from dissect.nats.kernel.dissection import KernelDissection
from dissect.nats.kernel.frame_block import FrameBlock
from dissect.nats.kernel.load import VARIABLE
from dissect.nats.kernel.state import R_LABEL, R_ORDINAL
from dissect.nats.schema.records import FrameRecord

from tests.dissector.fuzzing.kernel import generated
from tests.dissector.kernel.both import KERNEL
from tests.support.damage import pcap_bytes

pytestmark = KERNEL


def released(folder: Path, together: bool, options: Options = Options()) -> list[ReleasedRows]:
    path = folder / "case.pcap"
    path.write_bytes(pcap_bytes(generated(0)))
    with patch.dict(os.environ, {VARIABLE: "on"}), patch.object(reader, "BLOCK", 20_000):
        dissection = KernelDissection(["frames"], options, blocks=True)
        packets = dissection.packets([str(path)], CaptureReport())
        with closing(dissection.read(packets, together)) as source:
            return [*source]


@pytest.mark.parametrize("together", [True, False])
def test_rows_come_after_each_run_unless_they_may_wait(together: bool, tmp_path: Path) -> None:
    found = released(tmp_path, together)
    blocks = [block for rows in found for block in rows.records if isinstance(block, FrameBlock)]
    assert len(blocks) == 1 if together else len(blocks) > 5
    ordinals = [int(ordinal) for block in blocks for ordinal in block.numbers[R_ORDINAL]]
    assert ordinals == sorted(ordinals)
    assert len(ordinals) > 500


def test_most_rows_of_plain_traffic_are_columns(tmp_path: Path) -> None:
    columns = objects = 0
    for rows in released(tmp_path, True):
        (record, *_), some = rows.records, [rows]
        if isinstance(record, FrameBlock):
            columns += len(record.numbers[0])
            some = [*record.releases]
        objects += sum(isinstance(row, FrameRecord) for each in some for row in each.records)
    assert columns > 3 * objects


def test_rows_of_other_kinds_are_not_made(tmp_path: Path) -> None:
    found = released(tmp_path, True, Options(kind=("route",)))
    for rows in found:
        for block in rows.records:
            if isinstance(block, FrameBlock):
                assert {sender.kind for sender in block.senders} == {"route"}
                assert int(block.numbers[R_LABEL].max()) < len(block.senders)
