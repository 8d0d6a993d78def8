"""Extents: put together they are the file, packet for packet, wherever it is cut."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.capture import CaptureReport
from dissect.nats.errors import CaptureError
from dissect.nats.partition.byte_ranges import SMALLEST, captures, cut, read_byte_range, window

from tests.dissector.partition.cutting import HOSTILE, SIZES, packets, same_when_cut, settled, whole
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import START_NS, Interface, Record, pcap_file, pcapng_file

SAMPLES = sorted(path.name for path in CAPTURES.glob("*.pcap*"))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_its_extents(name: str) -> None:
    for size in SIZES:
        same_when_cut(CAPTURES / name, size)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_capture_that_is_hard_to_cut_is_its_extents(name: str, tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(HOSTILE[name])
    for size in SIZES:
        same_when_cut(path, size)


RECORDS = st.lists(
    st.builds(
        Record,
        st.integers(0, 10**15).map(lambda micros: micros * 1000),
        st.binary(max_size=600),
        st.none() | st.integers(0, 1000),
        st.integers(0, 1),
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(
    RECORDS, st.sampled_from("<>"), st.booleans(), st.integers(0, 3000), st.sampled_from((1, 30))
)
def test_any_capture_is_its_extents(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[Record],
    order: str,
    blocks: bool,
    lost: int,
    times: int,
) -> None:
    path = tmp_path_factory.mktemp("any") / "capture"
    interfaces = (Interface(), Interface(101, tsresol=9))
    data = (
        pcapng_file(records * times, interfaces, order)
        if blocks
        else pcap_file(records * times, order=order)
    )
    path.write_bytes(data[: max(len(data) - lost, 24 if not blocks else 28)])
    same_when_cut(path, SMALLEST)


def test_extents_are_ranges_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(pcap_file(packets(100)))
    byte_ranges = cut(str(path), SMALLEST)
    size = path.stat().st_size
    assert [byte_range.start for byte_range in byte_ranges] == list(range(0, size, SMALLEST))
    assert [byte_range.number for byte_range in byte_ranges] == list(range(len(byte_ranges)))
    assert sum(byte_range.bytes for byte_range in byte_ranges) == size
    assert [byte_range.guessed for byte_range in byte_ranges] == [False] + [True] * (
        len(byte_ranges) - 1
    )
    assert pickle.loads(pickle.dumps(byte_ranges)) == byte_ranges
    assert all(len(pickle.dumps(byte_range)) < 1000 for byte_range in byte_ranges)


def test_a_compressed_file_is_one_extent(tmp_path: Path) -> None:
    path = tmp_path / "capture.gz"
    path.write_bytes(gzip.compress(pcap_file(packets(200)), mtime=0))
    (byte_range,) = cut(str(path), SMALLEST)
    assert byte_range.packed and byte_range.stop is None
    assert same_when_cut(path, SMALLEST) == 0
    path.write_bytes(path.read_bytes()[:-3000])
    same_when_cut(path, SMALLEST)


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "letter"
    for data, reason in (
        (b"Dear all", "not a capture"),
        (b"", "the file is empty"),
        (gzip.compress(b"Dear all", mtime=0), "not a capture"),
    ):
        path.write_bytes(data)
        with pytest.raises(CaptureError, match=reason):
            cut(str(path), SMALLEST)
    with pytest.raises(CaptureError, match="no such file"):
        cut(str(tmp_path / "nothing"), SMALLEST)
    with pytest.raises(CaptureError, match="write it to a file"):
        captures(["-"], CaptureReport())
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CaptureError, match="this is not a file"):
        cut(str(tmp_path / "pipe"), SMALLEST)


def test_a_file_that_changes_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(pcap_file(packets(100)))
    (walked,), _ = settled([path], SMALLEST)
    byte_range = walked[1].byte_range
    with path.open("ab") as file:
        file.write(pcap_file(packets(1))[24:])
    with pytest.raises(CaptureError, match="changed while it was read; wait until"):
        list(read_byte_range(byte_range, byte_range.report()))


def test_a_file_that_changes_while_it_is_read_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(pcap_file(packets(100)))
    (byte_range,) = cut(str(path), 1 << 20)
    reading = read_byte_range(byte_range, byte_range.report())
    assert next(reading).places
    os.utime(path, ns=(START_NS, START_NS))
    with pytest.raises(CaptureError, match="changed while it was read"):
        list(reading)


def test_a_report_tells_what_was_read_of_an_extent(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(pcap_file(packets(100))[:-1])
    (walked,), _ = settled([path], SMALLEST)
    report = walked[-1].byte_range.report()
    count = sum(len(run.places) for run in read_byte_range(walked[-1].byte_range, report))
    assert (report.packets, report.finished) == (count, True)
    _, (single,) = whole([path])
    assert report.damage == single.damage and "in packet 100, at byte" in str(report.damage)
    assert walked[-1].report.damage == single.damage


def test_a_window_ends_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(pcap_file(packets(100)))
    byte_range = cut(str(path), SMALLEST)[1]
    assert window(byte_range, 10) == path.read_bytes()[SMALLEST : SMALLEST + 10]
    assert window(byte_range, 1 << 30) == path.read_bytes()[SMALLEST:]
