"""The application layer where nobody wants its tables: `sessions` and `frames` with it and without it.

Instructions are counted (valgrind): 2 % is less than two runs on the same machine differ by. In the build
without it no module of `application` declares a table, but for `servers`, which the package imports. What a
process does before the first packet is left out: the instructions of a smaller capture are subtracted.

DISSECTOR_PACKETS is the size of the larger capture, 6000 packets by default: valgrind takes 30 times as long.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.generate import Plan, write_file
from tests.support.paths import ROOT
from tests.support.requirements import missing

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]

PACKETS = int(os.environ.get("DISSECTOR_PACKETS", "6000"))
FEWER = 1000
MOST = 1.02

_READ = """
import pkgutil, sys
if sys.argv[2] == "without":
    found = pkgutil.walk_packages
    pkgutil.walk_packages = lambda *args: (it for it in found(*args) if it.name.endswith(".servers"))
from dissect.nats.pipeline import records
from dissect.nats.tables import TABLES
assert ("api" in TABLES) is (sys.argv[2] == "with")
for row in records(sys.argv[1:2], [sys.argv[3]]):
    pass
"""


def instructions(path: Path, build: str, table: str) -> int:
    """The instructions of a process that reads a table of a capture."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        missing("valgrind", "apt-get install valgrind")
    counter = [valgrind, "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    command = [*counter, sys.executable, "-c", _READ, str(path), build, table]
    here = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=ROOT, env=here, capture_output=True, text=True, check=True)
    counted = re.search(r"I +refs: +([0-9,]+)", done.stderr)
    assert counted, done.stderr
    return int(counted[1].replace(",", ""))


@pytest.mark.parametrize("table", ["sessions", "frames"])
@pytest.mark.parametrize("traffic", ["jetstream", "core"])
def test_tables_that_nobody_wants_cost_nothing(tmp_path: Path, traffic: str, table: str) -> None:
    paths = [tmp_path / f"{packets}.pcap" for packets in (FEWER, PACKETS)]
    for path, packets in zip(paths, (FEWER, PACKETS)):
        write_file(path, Plan(packets, repeating=False, jetstream=traffic == "jetstream"))
    spent = {}
    for build in ("without", "with"):
        few, many = (instructions(path, build, table) for path in paths)
        spent[build] = (many - few) // (PACKETS - FEWER)
    ratio = spent["with"] / spent["without"]
    print(f"\n{table} of {traffic} traffic: {spent} instructions a packet, {ratio:.4f} x")
    assert ratio <= MOST
