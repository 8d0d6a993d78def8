"""The worker processes of `--jobs`, and those of programs of tests, without half a second of imports for
each."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import BaseContext

import pytest

PRELOADED = [
    "dissect.nats.parallel.worker",
    "tests.support.interrupted",
    "tests.support.reentrant",
]


@pytest.fixture(scope="session")
def fork_server() -> None:
    """Processes of multiprocessing that stay, with their pipes, until the end of the program."""
    resource_tracker.ensure_running()
    forkserver.set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()


@pytest.fixture(scope="module")
def worker_processes(fork_server: None) -> Iterator[None]:
    """Workers are forked from a process that has imported the dissector and has no threads. What workers do,
    and how they end, is the same. Processes that tests start themselves spawn their workers."""
    get_context = multiprocessing.get_context

    def forking(method: str | None = None) -> BaseContext:
        return get_context("forkserver" if method == "spawn" else method)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multiprocessing, "get_context", forking)
        yield
