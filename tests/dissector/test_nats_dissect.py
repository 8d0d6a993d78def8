"""`nats-dissect` while Python still imports it."""

from __future__ import annotations

import os
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


def test_an_interrupt_while_python_m_imports_the_command_line() -> None:
    code = INTERRUPTED.format(module="runpy", function="run")
    code = code.replace("import run\n", "import run_module\n")
    code = code.replace("run()", 'run_module("dissect.nats", run_name="__main__")')
    command = [sys.executable, "-c", code, "dissect.nats.cli"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.parametrize("words", ["--help", "--version", "sessions --help", "audit --list"])
def test_output_that_nobody_reads(words: str) -> None:
    assert closed_pipe("stdout", words) == (0, "")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("nothing", 2),
        ("sessions missing.pcap", 2),
        ("sessions samples/captures/core-2.15.1.pcap", 0),
        ("sessions --progress samples/captures/core-2.15.1.pcap", 0),
        ("audit --fail-on never samples/captures/core-2.15.1.pcap", 0),
    ],
)
def test_messages_that_nobody_reads(words: str, status: int) -> None:
    assert closed_pipe("stderr", words)[0] == status


def closed_pipe(stream: str, words: str) -> tuple[int, str]:
    """The exit status of the command with nobody at the other end of one of its outputs, and its messages."""
    reader, writer = os.pipe()
    os.close(reader)
    is_output = stream == "stdout"
    command = [sys.executable, "-m", "dissect.nats", *words.split()]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        text=True,
        stdout=writer if is_output else subprocess.DEVNULL,
        stderr=subprocess.PIPE if is_output else writer,
    ) as program:
        os.close(writer)
        messages = program.communicate()[1]
    return program.returncode, messages or ""
