"""Programs of tests in new processes, without the start of Python and the imports, which take as long as what
many of these programs do: processes are forked from one that has imported the client.

    done = run(reentrant.main, url, "flush", "publish")

Needs the fixture `fork_server`.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

OUTPUT, ERRORS = "1", "2"


class Ended(NamedTuple):
    """The status of a process that ended, minus the signal that ended it, or None for one that was killed
    because it took too long; and what it wrote."""

    status: int | None
    output: str
    errors: str


def run(main: Callable[..., None], *arguments: str, timeout: float = 55.0) -> Ended:
    """Runs a function of a module in a process of its own, with this environment, for `timeout` seconds at
    most."""
    context = multiprocessing.get_context("forkserver")
    with TemporaryDirectory() as folder:
        values = folder, dict(os.environ), main, arguments
        process = context.Process(target=_enter, args=values)
        process.start()
        process.join(timeout)
        status = process.exitcode
        process.kill()
        process.join()
        process.close()
        output, errors = (Path(folder, name).read_text() for name in (OUTPUT, ERRORS))
    return Ended(status, output, errors)


def _enter(
    folder: str, environment: dict[str, str], main: Callable[..., None], arguments: tuple[str, ...]
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for name in (OUTPUT, ERRORS):
        file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT)
        os.dup2(file, int(name))
        os.close(file)
    gc.freeze()  # what is imported is none of the program's garbage
    main(*arguments)
