"""A report beside an audit, and an audit beside frames as Parquet: CPU time and memory, in one run. And what
each table costs that they read beside frames.

DISSECTOR_PACKETS is the size of the capture, a million packets by default.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dissect.nats.report.findings import rules, wanted

from tests.bench.children import alternating, taken
from tests.bench.generate import Plan, write_file
from tests.support.paths import ROOT

pytestmark = [pytest.mark.bench, pytest.mark.timeout(7200)]

PACKETS = int(os.environ.get("DISSECTOR_PACKETS", "1000000"))
ROUNDS = int(os.environ.get("DISSECTOR_ROUNDS", "1"))

_READ = """
import sys
from dissect.nats.pipeline import released
for rows in released(sys.argv[1:2], sys.argv[2:], together=True, blocks=True):
    pass
"""


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("report") / "capture.pcap"
    write_file(path, Plan(PACKETS))
    yield path
    path.unlink()


def test_a_report_beside_an_audit_and_frames(capture: Path) -> None:
    program = [sys.executable, "-m", "dissect.nats"]
    out = capture.with_name("out")
    commands = {
        "frames": ["frames", "--format", "parquet"],
        "audit": ["audit", "--fail-on", "never"],
        "report": ["report"],
    }
    figures = alternating(
        [
            [*program, *command, "--no-progress", "-o", f"{out}.{name}", str(capture)]
            for name, command in commands.items()
        ],
        ROOT,
        ROUNDS,
    )
    frames, audit, report = figures
    print(f"\n{PACKETS} packets, one process:")
    for name, each in zip(commands, figures):
        print(f"  {name:<8} {each.cpu:6.1f} s of CPU, {each.peak_bytes / 1e6:4.0f} MB")
    print(
        f"  audit / frames {audit.cpu / frames.cpu:.2f}, report / audit {report.cpu / audit.cpu:.2f}"
    )
    assert audit.cpu <= 3 * frames.cpu
    assert report.cpu <= 2.5 * audit.cpu
    assert report.peak_bytes <= 500e6


def test_what_each_table_costs(capture: Path) -> None:
    def cpu(*tables: str) -> float:
        return taken([sys.executable, "-c", _READ, str(capture), *tables], ROOT).cpu

    frames = min(cpu("frames") for _ in range(3))
    costs = {table: cpu("frames", table) / frames for table in wanted(rules()) if table != "frames"}
    print(f"\n{PACKETS} packets, dissection alone, beside frames ({frames:.1f} s of CPU):")
    for table, ratio in sorted(costs.items(), key=lambda item: item[1]):
        print(f"  frames and {table:<13} {ratio:.2f} x")
    assert max(costs, key=costs.__getitem__) == "paths"
