"""Fails a test that leaves a thread or an open file descriptor behind.

What fixtures of a wider scope hold open is there before the test begins, and so is not its leak. Nor
are connections to Spark's Java: py4j opens one for whichever thread asks it something or drops one of
its objects, which a garbage collection does during any later test, and keeps it open. Nor are the event
descriptors of pyarrow's connections to S3, which are kept for the next request, nor AWS's source of
randomness.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

# A thread that was told to end may need a moment; one that was forgotten never ends.
PATIENCE = 2.0

_EVENTS = "anon_inode:[eventfd]", "anon_inode:[eventpoll]", "(/dev/urandom)"


@pytest.fixture(autouse=True)
def _no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    before = _held()
    failures = request.session.testsfailed
    yield
    if request.session.testsfailed != failures:
        return  # its traceback still holds what the failure kept from being closed
    connected = "s3_bucket" in request.fixturenames
    if left := _left_behind(before, _EVENTS if connected else ()):
        names = [f"{name}, peer's port {_peer_port(name)}" for name in sorted(left)]
        pytest.fail("left behind by this test: " + "; ".join(names), pytrace=False)


def _left_behind(before: set[object], kept: tuple[str, ...]) -> list[str]:
    deadline = time.monotonic() + PATIENCE
    while left := [
        name
        for name in map(_name, _held() - before)
        if not _leads_to_java(name) and not any(kind in name for kind in kept)
    ]:
        if time.monotonic() > deadline:
            break
        gc.collect()
        time.sleep(0.01)
    return left


def _held() -> set[object]:
    """The threads that run, and the open descriptors: number, device and inode. This is read twice a test, so
    names, which take ten times as long, are found for those that are left."""
    held: set[object] = set(threading.enumerate())
    try:
        numbers = os.listdir("/proc/self/fd")
    except FileNotFoundError:
        return held  # a system without /proc
    for number in map(int, numbers):
        try:
            status = os.fstat(number)
        except OSError:
            continue  # the one that listed the folder
        held.add((number, status.st_dev, status.st_ino))
    return held


def _name(held: object) -> str:
    if isinstance(held, threading.Thread):
        return f"thread {held.name}"
    assert isinstance(held, tuple)
    try:
        return f"descriptor {held[0]} ({os.readlink(f'/proc/self/fd/{held[0]}')})"
    except FileNotFoundError:
        return f"descriptor {held[0]} (closed since)"


def _leads_to_java(name: str) -> bool:
    """Whether a descriptor is a connection to the Java of this process's Spark session."""
    if (pyspark := sys.modules.get("pyspark")) is None or "socket:[" not in name:
        return False
    gateway = pyspark.SparkContext._gateway
    return gateway is not None and _peer_port(name) == gateway.gateway_parameters.port


def _peer_port(name: str) -> int | None:
    """The remote port of a TCP socket, found by the inode that the link of its descriptor names."""
    inode = name.rpartition("[")[2].rstrip("])")
    for table in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", table).read_text().splitlines()[1:]
        except FileNotFoundError:
            continue
        for fields in map(str.split, lines):
            if fields[9] == inode:
                return int(fields[2].rpartition(":")[2], 16)
    return None
