"""Pieces of a capture: valid captures, which together are the whole."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from dissect.nats.capture import FileReport
from dissect.nats.partition.split_points import bytes_of, pieces
from dissect.nats.types import Packet

from tests.dissector.partition.cutting import HOSTILE, backwards, packets, whole
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import START_NS, Record, pcap_file, pcapng_file


def cut(path: Path, size: int, folder: Path) -> tuple[list[Path], FileReport]:
    """The files of the pieces, and what reading said."""
    report = FileReport(str(path), path.name)
    made = pieces(str(path), size, report)
    folder.mkdir(exist_ok=True)
    files = [folder / f"{number:05}" for number in range(len(made))]
    for number, data in bytes_of(str(path), made):
        with files[number].open("ab") as file:
            file.write(data)
    return files, report


def values(packets: list[Packet]) -> list[tuple[int, int, bytes, int]]:
    return [(packet.ts_ns, packet.linktype, packet.data, packet.wire_bytes) for packet in packets]


@pytest.mark.parametrize("name", HOSTILE)
def test_pieces_are_the_whole(name: str, tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(HOSTILE[name])
    files, report = cut(path, 20_000, tmp_path / "pieces")
    packets, (single,) = whole([path])
    found, reports = whole([tmp_path / "pieces"])
    assert values(found) == values(packets)
    # Pieces end before damage that ends the reading; unusable records are copied, and unusable there too.
    unusable = [single.damage] if (single.damage or "").startswith("unusable records") else []
    assert [each.damage for each in reports if each.damage] == unusable
    assert len(reports) == len(files)
    assert (report.damage, report.packets) == (single.damage, single.packets)
    if name.startswith(("micro", "nano", "modified", "pcapng <")):
        sizes = [file.stat().st_size for file in files]
        assert len(sizes) > 4 and all(12_000 < size < 24_000 for size in sizes[:-1])


def test_a_sample_that_is_compressed_is_its_pieces(tmp_path: Path) -> None:
    source = CAPTURES / "bulk-2.15.1.pcap"
    packed = tmp_path / "bulk.pcap.gz"
    packed.write_bytes(gzip.compress(source.read_bytes(), mtime=0))
    files, _ = cut(packed, 30_000, tmp_path / "pieces")
    assert len(files) > 5
    assert values(whole([tmp_path / "pieces"])[0]) == values(whole([source])[0])
    parts = [file.read_bytes()[24 if number else 0 :] for number, file in enumerate(files)]
    assert b"".join(parts) == source.read_bytes()
    packed.write_bytes(packed.read_bytes()[:-9000])
    files, report = cut(packed, 30_000, tmp_path / "shorter")
    assert "the gzip data ends early" in str(report.damage)
    assert values(whole([tmp_path / "shorter"])[0]) == values(whole([packed])[0])


@pytest.mark.parametrize("write", [pcap_file, pcapng_file])
def test_no_piece_begins_before_another_ends(
    write: Callable[[list[Record]], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "capture"
    records = backwards(packets(400))
    records[350] = Record(START_NS, b"from the past")
    path.write_bytes(write(records))
    files, _ = cut(path, 10_000, tmp_path / "pieces")
    spans = [[packet.ts_ns for packet in whole([file])[0]] for file in files]
    for one, following in zip(spans, spans[1:]):
        assert max(one) <= min(following)
    assert len(files) == 1
    path.write_bytes(write(backwards(packets(400), 3)))
    files, _ = cut(path, 10_000, tmp_path / "more")
    assert len(files) > 5
    assert values(whole([tmp_path / "more"])[0]) == values(whole([path])[0])


def test_packets_of_one_time_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(pcap_file([Record(START_NS, b"%d" % number) for number in range(2000)]))
    files, _ = cut(path, 5000, tmp_path / "pieces")
    assert len(files) > 5
    assert values(whole([tmp_path / "pieces"])[0]) == values(whole([path])[0])
