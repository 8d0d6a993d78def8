"""Records made of blocks are those that Python makes of frames, release by release."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.kernel.block_records import releases_of
from dissect.nats.kernel.frame_block import FrameBlock
from dissect.nats.schema.records import FrameRecord

from tests.dissector.fuzzing.harms import NAMES, sample
from tests.dissector.fuzzing.kernel import TABLES, Case, Count, difference, generated
from tests.dissector.kernel.both import KERNEL
from tests.dissector.kernel.test_rows import released

pytestmark = KERNEL

WITH_FRAMES = [tables for tables in TABLES if "frames" in tables]


@pytest.mark.parametrize("tables", WITH_FRAMES, ids=len)
@pytest.mark.parametrize("live", [False, True])
def test_rows_are_the_same_in_every_order(
    live: bool, tables: tuple[str, ...], tmp_path: Path
) -> None:
    pcaps = [sample(name) for name in NAMES[::5]] + [generated(number) for number in range(4)]
    for pcap in pcaps:
        case = Case(pcap, (), tables, 20_000, live=live)
        found = difference(case, tmp_path / "case", Count())
        assert not found, found


def test_each_packet_is_a_release_with_its_frames_in_order(tmp_path: Path) -> None:
    blocks = [record for rows in released(tmp_path, True) for record in rows.records]
    found = [
        rows for block in blocks if isinstance(block, FrameBlock) for rows in releases_of(block)
    ]
    packets = [rows.release.packet for rows in found]
    assert packets == sorted(packets) and len(packets) > 300
    for rows in found:
        numbers = [row.number for row in rows.records if isinstance(row, FrameRecord)]
        assert numbers == sorted(numbers)
