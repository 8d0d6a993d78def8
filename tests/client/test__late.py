"""Imports at the first use: what half a module, a missing one and any other error become."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.abc import MetaPathFinder
from types import ModuleType

import pytest

from natsync._late import late_import
from natsync.errors import ReentrantCallError

from tests.support.fake_server import Background


def test_half_a_module_is_a_call_from_within_its_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "half_made", ModuleType("half_made"))
    with pytest.raises(ReentrantCallError, match="while the same thread .* imports") as caught:
        with late_import:
            from half_made import name  # type: ignore[import-not-found]  # noqa: F401  # made above
    assert isinstance(caught.value.__cause__, ImportError)


def test_a_missing_module_and_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ModuleNotFoundError), late_import:
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401  # that is the point
    with pytest.raises(ZeroDivisionError), late_import:
        1 / 0


class Interrupting(MetaPathFinder):
    """Makes a call in the middle of each import, as a signal handler does."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def find_spec(self, *_: object) -> None:
        self._call()


def import_late() -> None:
    with late_import, suppress(ModuleNotFoundError):
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401


def test_an_import_inside_another_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = 0

    def interrupt() -> None:
        nonlocal refused
        with pytest.raises(ReentrantCallError):
            import_late()
        Background(import_late_undisturbed).result()
        refused += 1

    def import_late_undisturbed() -> None:
        with late_import:  # on another thread
            pass

    monkeypatch.setattr(sys, "meta_path", [Interrupting(interrupt), *sys.meta_path])
    import_late()
    assert refused == 1
    import_late()
    assert refused == 2


FORKS = """
import multiprocessing, sys, threading
from natsync._late import late_import

begun = threading.Event()

class Slow:
    def find_spec(self, name, path, target=None):
        if name == "wave":
            begun.set()
            threading.Event().wait(0.5)

def work():
    with late_import:
        import wave

sys.meta_path.insert(0, Slow())
threading.Thread(target=work).start()
begun.wait()
child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join(10)
child.kill()
print(child.exitcode)
"""


def test_a_fork_waits_for_the_imports_of_other_threads() -> None:
    """The child hung for ever at its first call of the same kind."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_an_import_whose_end_was_interrupted_is_forgotten() -> None:
    def interrupted() -> None:
        late_import.__enter__()

    interrupted()
    with late_import:
        pass
    interrupted()
    import_late()
