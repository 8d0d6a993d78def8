"""`nats-dissect` while Python still imports it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

INTERRUPTED = """
import os, signal, sys

class Interrupt:
    def find_spec(name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt)
from {module} import {function}
{function}()
"""


@pytest.mark.parametrize(
    "module", ["dissect.nats", "dissect.nats.api", "dissect.nats.__main__", "dissect.nats.cli"]
)
def test_an_interrupt_while_it_is_imported(module: str) -> None:
    script = re.search(r"nats-dissect = ([\w.]+):(\w+)", (ROOT / "setup.cfg").read_text())
    assert script
    code = INTERRUPTED.format(module=script[1], function=script[2])
    command = [sys.executable, "-c", code, module]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")
