"""The fuzzer of the kernel: a few seconds of it in every run, captures that once differed, and the proof that
it sees a difference and shrinks it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from dissect.nats import Options
from dissect.nats.kernel.owner import Owner

from tests.dissector.fuzzing import kernel
from tests.dissector.fuzzing.captures import TIGHT
from tests.dissector.fuzzing.kernel import BLOCKS, SHORT, TABLES, Case, Count, case_of, generated
from tests.dissector.kernel.both import KERNEL
from tests.support.damage import read_pcap

pytestmark = KERNEL

HELD = sorted((Path(__file__).parent / "held").glob("*.pcap"))


def test_a_few_seconds_show_no_difference() -> None:
    count, runs, case, found = kernel.run(3, random.randrange(2**32))
    assert case is None, f"{case}: {found}"
    assert runs and count.packets


@pytest.mark.parametrize("path", HELD, ids=lambda path: path.stem)
def test_a_capture_that_once_differed_does_not(path: Path, tmp_path: Path) -> None:
    pcap = read_pcap(path.read_bytes())
    for options in (TIGHT, SHORT, Options()):
        for block in BLOCKS[:2]:
            for tables in TABLES:
                case = Case(pcap, (), tables, block, options, live=options is SHORT)
                found = kernel.difference(case, tmp_path / "case", Count())
                assert not found, found


def test_the_same_numbers_make_the_same_case() -> None:
    assert [case_of(1, run) for run in range(8)] == [case_of(1, run) for run in range(8)]
    assert case_of(1, 7) != case_of(2, 7)


def test_a_difference_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Owner, "add_sums", lambda self, owned: None)
    pcap = generated(1)
    case = Case(replace(pcap, records=pcap.records[:300]))
    path = tmp_path / "case"
    assert "with:" in kernel.difference(case, path, Count())
    small = kernel.shrunk(case, path, 5)
    assert len(small.pcap.records) < 300
    assert kernel.fails(small, path)
