"""The slowest captures that anybody could think of: MB/s of each, and the worst of all.

Asserted: no input is dissected at less than 1 MB/s of capture file, all tables made in one pass. Where every
11 to 25 bytes are a message (`TINY`), this holds without `paths`, where each message has a row of 6 to
10 us: at 1 MB/s, 11 bytes leave 11 us for all their rows. With `paths`, half of it is asserted. Time grows
as the capture does: four times the capture takes less than eight times as long (sixteen if time were
quadratic), also where `paths` uses the disk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from dissect.nats import Options
from dissect.nats.application import item_store
from dissect.nats.pipeline import records
from dissect.nats.tables import TABLES

from tests.bench import hostile_layers
from tests.bench.hostile_captures import CASES, TINY, Case
from tests.bench.rounds import cpu_seconds, machine
from tests.support.pcapwriter import pcap_file

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

WORST = 1e6  # bytes a second
WORST_WITH_PATHS = 0.5e6  # of TINY
TIMES = 8  # as long, for four times as much
HELD = 1000  # items of `paths` in memory: with so few, both sizes use the disk
BRIEF = 0.02  # seconds: shorter ones say nothing about how time grows
BOMB_SECONDS = 2.0
AGAIN = 6  # rounds for a case that seems too slow; one may take half as long again as another


def seconds(
    path: Path, tables: Collection[str], rounds: int = 2, options: Options = Options()
) -> float:
    """CPU time: the least of some rounds."""

    def dissect() -> None:
        for _ in records([str(path)], list(tables), options):
            pass

    return min(cpu_seconds(dissect) for _ in range(rounds))


def captures(case: Case, n: int, folder: Path) -> Iterable[Path]:
    """The capture of a case, and one that is four times as large."""
    for size in (n, 4 * n):
        path = folder / f"{case.__name__}-{size}.pcap"
        path.write_bytes(pcap_file(list(case(size))))
        yield path


def test_nothing_is_slow_and_time_grows_as_the_capture_does(tmp_path: Path) -> None:
    speeds: dict[str, float] = {}
    with_paths: dict[str, float] = {}
    growth: dict[str, float] = {}
    without_paths = TABLES.keys() - {"paths"}
    for case, n in {**CASES, **TINY}.items():
        name = case.__name__
        small, large = captures(case, n, tmp_path)
        size = large.stat().st_size
        of_all = seconds(large, TABLES)
        if size / of_all < WORST:
            of_all = min(of_all, seconds(large, TABLES, AGAIN))
        speeds[name] = size / of_all
        growth[name] = of_all / max(BRIEF, seconds(small, TABLES))
        also = ""
        if case in TINY:
            with_paths[name] = speeds[name]
            speeds[name] = size / seconds(large, without_paths)
            also = f", with paths {with_paths[name] / 1e6:.2f}"
        print(f"{name:26} {speeds[name] / 1e6:6.2f} MB/s, 4 n takes {growth[name]:.1f} n{also}")
    worst = min(speeds, key=speeds.__getitem__)
    print(f"worst: {worst}, {speeds[worst] / 1e6:.2f} MB/s on {machine()}")
    assert speeds[worst] >= WORST
    assert min(with_paths.values()) >= WORST_WITH_PATHS
    assert {name: times for name, times in growth.items() if times >= TIMES} == {}


@pytest.mark.parametrize("case", hostile_layers.CASES)
def test_layers_are_not_slow_and_time_grows_as_the_capture_does(case: Case, tmp_path: Path) -> None:
    """All tables but `paths`; the server's secrets are known, so that records are tried. Half the speed is
    asserted where nearly all of the time goes to rows."""
    keys = tmp_path / "keys.log"
    keys.write_bytes(hostile_layers.SECRETS)
    options, tables = Options(keylog=[str(keys)]), TABLES.keys() - {"paths"}
    small, large = captures(case, hostile_layers.CASES[case], tmp_path)
    size = large.stat().st_size
    taken = seconds(large, tables, 2, options)
    if size / taken < WORST:
        taken = min(taken, seconds(large, tables, AGAIN, options))
    growth = taken / max(BRIEF, seconds(small, tables, 2, options))
    speed = size / taken
    print(f"{case.__name__:26} {speed / 1e6:6.2f} MB/s, 4 n takes {growth:.1f} n")
    # A bomb is small: its plaintext takes the time, which is limited.
    least = WORST / 2 if case in hostile_layers.MANY_ROWS else WORST
    assert speed >= least or case in hostile_layers.BOMBS and taken < BOMB_SECONDS
    assert growth < TIMES


@pytest.mark.parametrize("case", TINY)
def test_time_grows_as_the_capture_does_where_paths_uses_the_disk(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_store, "_HELD", HELD)
    small, large = captures(case, TINY[case], tmp_path)
    times = seconds(large, ["paths"]) / seconds(small, ["paths"])
    print(f"{case.__name__:26} on disk, 4 n takes {times:.1f} n")
    assert times < TIMES
