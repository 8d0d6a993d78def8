"""`__del__` works until the interpreter ends."""

from __future__ import annotations

import subprocess
import sys

from natsync._finalizers import before_exit


class Kept:
    @before_exit
    def __del__(self) -> None:
        ended.append(self.__class__.__name__)


ended: list[str] = []


def test_the_garbage_collector_calls_it() -> None:
    kept = Kept()
    assert ended == []
    del kept
    assert ended == ["Kept"]


def test_the_end_of_the_interpreter_does_not() -> None:
    code = """
import sys, threading
from natsync._finalizers import before_exit
class Kept:
    @before_exit
    def __del__(self):
        print("finalized")
threading.kept = Kept()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
