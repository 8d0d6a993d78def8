"""`import natsync` costs little: it loads the standard library alone, in less than 60 ms."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from tests.bench.rounds import machine
from tests.support.paths import ROOT

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

INTERPRETERS = 20
ALLOWED = 0.060


@pytest.fixture
def compiled(tmp_path: Path) -> dict[str, str]:
    """An environment in which the bytecode of what is imported is kept, as it is for users."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(tmp_path)}


def cpu_seconds(code: str, environment: dict[str, str]) -> float:
    """User and system time of one fresh interpreter: on an idle machine that is how long it takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def test_the_import_takes_less_than_60_ms(compiled: dict[str, str]) -> None:
    cpu_seconds("import natsync", compiled)  # writes the bytecode
    taken = [
        (cpu_seconds("pass", compiled), cpu_seconds("import natsync", compiled))
        for _ in range(INTERPRETERS)
    ]
    bare, with_natsync = (median(each) for each in zip(*taken))
    more = with_natsync - bare
    print(
        f"\n\nimport natsync: {more * 1e3:.1f} ms more than `pass`, {bare * 1e3:.1f} ms, {machine()}"
    )
    assert more < ALLOWED


def test_only_the_standard_library_is_loaded() -> None:
    code = "import sys; old = set(sys.modules); import natsync; print(*sys.modules.keys() - old)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    loaded = {module.partition(".")[0] for module in done.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"natsync"}
