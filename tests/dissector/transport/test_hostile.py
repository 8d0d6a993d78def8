"""What a sender could say in TLS, WebSocket or S2 to keep a dissector busy: few anomalies tell it, the sums
close, and little memory is needed."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from dissect.nats import Options
from dissect.nats.pipeline import records
from dissect.nats.schema.records import AnomalyRecord
from dissect.nats.types import Direction

from tests.bench import hostile_layers as hostile
from tests.support.conversations import CONNECT, INFO
from tests.support.pcapwriter import pcap_file
from tests.support.segments import packet_events, segments

MOST_MEMORY = 16 << 20
SHUT = {"tls_error": 1, "skipped": 1}
REPORTED: dict[hostile.Case, dict[str, int]] = {
    hostile.tls_records_of_a_byte: SHUT,
    hostile.tls_records_of_nothing: SHUT,
    hostile.tls_records_that_fail: SHUT,
    hostile.tls_bad_padding: SHUT,
    hostile.tls_lengths_that_lie: {"skipped": 1},
    hostile.tiny_frames: {},
    hostile.empty_frames: {},
    hostile.tiny_compressed: {},
    hostile.fragments_without_an_end: {"skipped": 1},
    hostile.s2_tiny_chunks: {},
}


@pytest.fixture
def options(tmp_path: Path) -> Options:
    """The secrets of the servers in TLS."""
    (tmp_path / "keys").write_bytes(hostile.SECRETS)
    return Options(keylog=[str(tmp_path / "keys")])


def written(case: hostile.Case, n: int, folder: Path) -> str:
    path = folder / f"{n}.pcap"
    path.write_bytes(pcap_file(case(n)))
    return str(path)


def anomalies(path: str, options: Options) -> Counter[str]:
    found = records([path], ("anomalies",), options)
    return Counter(str(row.anomaly) for row in found if isinstance(row, AnomalyRecord))


@pytest.mark.parametrize("case", REPORTED)
@pytest.mark.parametrize("n", [600, 6000])
def test_it_is_reported_once(case: hostile.Case, n: int, options: Options, tmp_path: Path) -> None:
    assert anomalies(written(case, n, tmp_path), options) == REPORTED[case]


@pytest.mark.parametrize("case", [hostile.deflate_bomb, hostile.s2_bomb, hostile.s2_of_pings])
def test_a_bomb_is_reported_once(case: hostile.Case, options: Options, tmp_path: Path) -> None:
    found = anomalies(written(case, 100, tmp_path), options)
    assert found["decompression_error"] == 1 and found.total() < 6


def test_few_bytes_become_few_frames(options: Options, tmp_path: Path) -> None:
    """Blocks of 24 bytes that become 175,000 frames each: nobody sends them, so none is read."""
    path = written(hostile.s2_of_pings, 200, tmp_path)
    assert len(list(records([path], ("frames",), options))) == 2


def test_each_wrong_chunk_between_right_ones_is_reported(options: Options, tmp_path: Path) -> None:
    path = written(hostile.s2_wrong_checksums, 50, tmp_path)
    assert anomalies(path, options)["decompression_error"] == 50


@pytest.mark.parametrize("case", [case for case in hostile.CASES if case not in hostile.BOMBS])
def test_sums_close_and_memory_is_bounded(
    case: hostile.Case, options: Options, tmp_path: Path
) -> None:
    path = written(case, 3000, tmp_path)
    layered = 0
    tracemalloc.start()
    try:
        for group in packet_events(segments([path]), options):
            for connection, _ in group.connections:
                if connection.over:
                    for way in Direction:
                        sums = connection.framing.stack.byte_counts(way)
                        end = connection.flow.side(way).stream.offset
                        for counts in list(sums.values())[:1]:
                            layered += 1
                            assert end - counts.span in (0, len(INFO), len(CONNECT))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert layered
    assert peak < MOST_MEMORY
