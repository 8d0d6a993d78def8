"""An interrupt while the command line is imported ends it as one later does."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import runpy, sys
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "natsync.cli":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
runpy.run_module("natsync", run_name="__main__")
"""


def test_an_interrupt_during_the_imports_leaves_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=30
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 130)
