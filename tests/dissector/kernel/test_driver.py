"""Rows are the same with the kernel, in blocks of any size, and for everything that a sample has."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.kernel.driver import Driver

from tests.dissector.fuzzing.harms import NAMES, sample
from tests.dissector.fuzzing.kernel import generated
from tests.dissector.kernel.both import KERNEL, kept_of

pytestmark = KERNEL


@pytest.mark.parametrize("block", [2000, 1 << 17])
def test_rows_of_samples_are_the_same(block: int, tmp_path: Path) -> None:
    kept = {name: kept_of(sample(name), tmp_path, block) for name in NAMES}
    assert sum(kept.values()) > 500


@pytest.mark.parametrize("number", range(4))
def test_rows_of_generated_traffic_are_the_same(number: int, tmp_path: Path) -> None:
    pcap = generated(number)
    kept = kept_of(pcap, tmp_path, 3000)
    assert kept > len(pcap.records) / 2, "the kernel keeps too little of plain traffic"
    assert Driver.rows_of.__doc__
