"""A standalone cluster of Spark on loopback: one master, two workers, from the classes that PySpark brings.

Workers know nothing of this checkout: their Python finds what is installed, and what is shipped.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark

HOME = Path(pyspark.__file__).parent
START_TIMEOUT = 120.0
POLL = 0.05
_ADDRESS = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master")


class Cluster(NamedTuple):
    """The URL of a master, and the processes of its workers."""

    url: str
    workers: list[subprocess.Popen[bytes]]


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A master with two workers, which write below `folder`."""
    with ExitStack() as stack:
        workers = []

        def start(
            name: str, ready: re.Pattern[str], *args: str
        ) -> tuple[re.Match[str], subprocess.Popen[bytes]]:
            log = folder / f"{name}.log"
            process = stack.enter_context(_process(log, folder, *args))
            return _ready_line(log, ready, process), process

        deploy = "org.apache.spark.deploy"
        ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        found, _ = start("master", _ADDRESS, f"{deploy}.master.Master", *ports)
        for name in ("worker1", "worker2"):
            limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / name))
            command = f"{deploy}.worker.Worker", *ports, *limits, found[1]
            workers.append(start(name, _REGISTERED, *command)[1])
        yield Cluster(found[1], workers)


@contextmanager
def _process(log: Path, folder: Path, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # it would listen on a fixed port
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [HOME / "bin" / "spark-class", *args],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _ready_line(
    log: Path, ready: re.Pattern[str], process: subprocess.Popen[bytes]
) -> re.Match[str]:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        if found := ready.search(log.read_text(errors="replace")):
            return found
        time.sleep(POLL)
    tail = log.read_text(errors="replace")[-2000:]
    raise RuntimeError(f"Spark's {log.stem} did not start: {tail}")


if __name__ == "__main__":  # python -m tests.support.standalone FOLDER, until interrupted
    with cluster(Path(sys.argv[1])) as started:
        print(started.url, flush=True)
        sys.stdin.read()
