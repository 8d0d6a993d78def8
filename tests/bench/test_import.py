"""What a process pays before its first request: `import natsync`, which loads the standard library alone, and
the first `connect`."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.rounds import machine
from tests.support.paths import ROOT
from tests.support.servers import NatsServer

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

INTERPRETERS = 20
ALLOWED = 0.055
CONNECT_ALLOWED = 0.008
# Of one process: the CPU milliseconds of the import, of the first connect, and of the second one.
FIRST = """
import sys, time
marks = [time.process_time()]
{imports}
marks.append(time.process_time())
for _ in range(2):
    {connect}
    marks.append(time.process_time())
print(*((after - before) * 1e3 for before, after in zip(marks, marks[1:])))
"""
OURS = FIRST.format(imports="import natsync", connect="nc = natsync.connect(sys.argv[1])")
THEIRS = FIRST.format(
    imports="import asyncio, nats; run = asyncio.new_event_loop().run_until_complete",
    connect="nc = run(nats.connect(sys.argv[1]))",
)


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


def test_the_import_takes_less_than_55_ms(compiled: dict[str, str]) -> None:
    cpu_seconds("import natsync", compiled)  # writes the bytecode
    taken = [
        (cpu_seconds("pass", compiled), cpu_seconds("import natsync", compiled))
        for _ in range(INTERPRETERS)
    ]
    # the least of each: a busy machine adds half to the medians
    bare, with_natsync = (min(each) for each in zip(*taken))
    more = with_natsync - bare
    print(
        f"\n\nimport natsync: {more * 1e3:.1f} ms more than `pass`, {bare * 1e3:.1f} ms, {machine()}"
    )
    assert more < ALLOWED


def test_the_first_connect_takes_less_than_8_ms(
    compiled: dict[str, str], server: NatsServer
) -> None:
    """Least CPU time of both, since the import must not have grown by what connect has lost."""

    def once(code: str) -> list[float]:
        command = [sys.executable, "-c", code, server.url]
        done = subprocess.run(
            command, cwd=ROOT, env=compiled, check=True, capture_output=True, text=True
        )
        return [float(each) for each in done.stdout.split()]

    for code in (OURS, THEIRS):
        once(code)  # writes the bytecode
    taken = [(once(OURS), once(THEIRS)) for _ in range(INTERPRETERS)]
    ours, theirs = (
        [min(each) for each in zip(*(pair[at] for pair in taken))] for at in range(len(taken[0]))
    )
    for name, (imports, first, second) in (("natsync", ours), ("nats-py", theirs)):
        print(f"\n{name}: import {imports:.1f} ms, first connect {first:.1f}, second {second:.1f}")
    assert ours[1] < CONNECT_ALLOWED * 1e3


def test_only_the_standard_library_is_loaded() -> None:
    code = "import sys; old = set(sys.modules); import natsync; print(*sys.modules.keys() - old)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    loaded = {module.partition(".")[0] for module in done.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"natsync"}
