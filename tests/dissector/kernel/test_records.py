"""Records read by the kernel are those that Python reads, in files of every form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dissect.nats.capture import CaptureReport, reader
from dissect.nats.capture.reader import RecordReaders
from dissect.nats.capture.sources import read_runs
from dissect.nats.kernel.records import CompiledReaders, PacketPlaces
from dissect.nats.types import Packet

from tests.dissector.fuzzing.harms import sample
from tests.dissector.fuzzing.kernel import FORMS, Case, file_of
from tests.dissector.kernel.both import KERNEL
from tests.support.damage import Record

pytestmark = KERNEL

S = 10**9
PCAP = sample("orders-2.15.1.pcap")
TIMES = (0, 5, 5 * S, 2 * S, 2 * S + 1, 9 * S, 3 * S, 3 * S)


def read(path: Path, readers: RecordReaders | None) -> tuple[list[Packet], str]:
    report = CaptureReport()
    packets = [packet for run in read_runs([str(path)], report, readers=readers) for packet in run]
    return packets, repr(report)


def compiled() -> RecordReaders:
    readers = RecordReaders()
    CompiledReaders().join(readers)
    readers.block = 0
    return readers


def check(path: Path, case: Case) -> None:
    path.write_bytes(file_of(case))
    with_kernel, without = read(path, compiled()), read(path, None)
    assert with_kernel[0] == without[0]
    assert with_kernel[1] == without[1]


def stepping(records: Sequence[Record]) -> list[Record]:
    """Packets whose times go back, and of which some are cut short."""
    steps = enumerate(zip(records, TIMES))
    return [
        replace(record, ts_ns=record.ts_ns + time, data=record.data[: 60 + 20 * at])
        for at, (record, time) in steps
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("block", [100, 3000, reader.BLOCK])
def test_packets_and_report_are_the_same(
    form: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "BLOCK", block)
    for pcap in (PCAP, PCAP.with_records(stepping(PCAP.records))):
        check(tmp_path / "x", Case(pcap, form=form))


@pytest.mark.parametrize("form", FORMS)
def test_damaged_files_are_read_as_far(form: str, tmp_path: Path) -> None:
    for spoiled in range(1, 12):
        check(tmp_path / "x", Case(PCAP, form=form, spoiled=spoiled))


def test_places_are_a_sequence_of_tuples(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(file_of(Case(PCAP)))
    (run,) = read_runs([str(tmp_path / "x")], CaptureReport(), readers=compiled())
    places = run.places
    assert isinstance(places, PacketPlaces)
    assert places[1] == [*places][1] == places[1:2][0] and isinstance(places[1], tuple)
    assert len(places) == len(PCAP.records)


def test_larger_blocks_are_read() -> None:
    readers = RecordReaders()
    CompiledReaders().join(readers)
    assert readers.block > reader.BLOCK
