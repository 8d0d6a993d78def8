"""Fails a test that leaves a thread or an open file descriptor behind.

What fixtures of a wider scope hold open is there before the test begins, and so is not its leak.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator

import pytest

# A thread that was told to end may need a moment; one that was forgotten never ends.
PATIENCE = 2.0


@pytest.fixture(autouse=True)
def _no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    before = _held()
    failures = request.session.testsfailed
    yield
    if request.session.testsfailed != failures:
        return  # its traceback still holds what the failure kept from being closed
    left = _left_behind(before)
    if "spark" in request.fixturenames:
        # py4j opens a socket for each thread that asks the JVM, and keeps it for as long as it likes.
        left = [name for name in left if "socket:[" not in name]
    if left:
        pytest.fail("left behind by this test: " + ", ".join(sorted(left)), pytrace=False)


def _left_behind(before: set[tuple[object, str]]) -> list[str]:
    deadline = time.monotonic() + PATIENCE
    while left := [name for key, name in _held() - before]:
        if time.monotonic() > deadline:
            break
        gc.collect()
        time.sleep(0.01)
    return left


def _held() -> set[tuple[object, str]]:
    threads = {(thread, f"thread {thread.name}") for thread in threading.enumerate()}
    return threads | _descriptors()


def _descriptors() -> set[tuple[object, str]]:
    """Open descriptors by number and target; none where the system has no /proc."""
    try:
        numbers = os.listdir("/proc/self/fd")
    except FileNotFoundError:
        return set()
    found: set[tuple[object, str]] = set()
    for number in numbers:
        try:
            found.add((number, f"descriptor {number} ({os.readlink(f'/proc/self/fd/{number}')})"))
        except FileNotFoundError:
            pass  # the one that listed the folder
    return found
