"""Rows with the kernel and without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dissector.fuzzing.kernel import TABLES, Case, Count, difference
from tests.support.damage import Pcap

# One worker compiles the kernel, which may take long on a busy machine.
KERNEL = [pytest.mark.xdist_group("kernel"), pytest.mark.timeout(600)]


def kept_of(
    pcap: Pcap, folder: Path, block: int = 1 << 17, tables: tuple[str, ...] = TABLES[-1]
) -> int:
    """How many packets the kernel keeps of a capture, of which it must make the same rows as Python."""
    count = Count()
    case = Case(pcap, (), tables, block)
    found = difference(case, folder / "case.pcap", count)
    assert not found, found
    return count.kept
