"""Every sample in other files and other link headers: frames and sessions are the same."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.dissector.samples.rows import (
    CAPTURES,
    PCAPS,
    rewritten,
    same_frames,
    same_sessions,
    sample,
)
from tests.support.packets import ETHERNET, tagged
from tests.support.pcapwriter import Interface, Record, pcap_file, pcapng_file

every_sample = pytest.mark.parametrize("name", PCAPS)
FILES = {"capture"}


def packets(name: str) -> list[Record]:
    return [Record(each.ts_ns, each.data, each.length) for each in sample(name).records]


def ticks(name: str) -> int:
    """How fine its times are: 10 to the minus this."""
    return 9 if any(each.ts_ns % 1000 for each in sample(name).records) else 6


FORMATS: dict[str, Callable[[str], bytes]] = {
    "gzip": lambda name: gzip.compress((CAPTURES / name).read_bytes(), 1),
    "pcapng": lambda name: pcapng_file(
        packets(name), [Interface(sample(name).linktype, tsresol=ticks(name))]
    ),
    "big-endian pcapng": lambda name: pcapng_file(
        packets(name), [Interface(sample(name).linktype, tsresol=9)], ">"
    ),
    "gzipped pcapng": lambda name: gzip.compress(
        pcapng_file(packets(name), [Interface(sample(name).linktype, tsresol=9)]), 1
    ),
    "nanoseconds": lambda name: pcap_file(packets(name), sample(name).linktype, nanoseconds=True),
    "big-endian": lambda name: pcap_file(
        packets(name), sample(name).linktype, ">", nanoseconds=ticks(name) == 9
    ),
}


@every_sample
@pytest.mark.parametrize("form", FORMATS)
def test_another_format_of_file_gives_the_same_frames(name: str, form: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FORMATS[form](name))
    same_frames(name, [path], ())
    same_sessions(name, [path], ())


@pytest.mark.parametrize("name", [name for name in PCAPS if sample(name).linktype == ETHERNET])
@pytest.mark.parametrize("numbers", [(12,), (12, 345)], ids=["VLAN", "QinQ"])
def test_packets_with_vlan_tags_give_the_same_frames(
    name: str, numbers: tuple[int, ...], tmp_path: Path
) -> None:
    path = rewritten(tmp_path, name, [tagged(record, numbers) for record in sample(name).records])
    same_frames(name, [path], ())


@every_sample
def test_rotated_files_are_one_capture(name: str, tmp_path: Path) -> None:
    """Cut at any packets, given in any order."""
    rng = random.Random(name)
    records = sample(name).records
    cuts = sorted(rng.sample(range(1, len(records)), 3))
    paths = []
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(records)])):
        folder = tmp_path / str(number)
        folder.mkdir()
        paths.append(rewritten(folder, name, records[start:stop]))
    rng.shuffle(paths)
    same_frames(name, paths, {"packet"})
    same_sessions(name, paths, FILES)
