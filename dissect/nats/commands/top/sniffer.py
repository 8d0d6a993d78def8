"""Packets of a network interface, from `dumpcap` or `tcpdump`, which have the privileges to capture.

dumpcap is preferred, because distributions let a group of users capture with it; tcpdump usually needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile

from ...errors import DissectError

_COMMANDS = {
    "dumpcap": ("-q", "-P", "-w", "-", "-i"),
    "tcpdump": ("-U", "-w", "-", "-i"),
}
_PATIENCE_SECONDS = 5
_HEADER_BYTES = 1 << 16


@contextmanager
def sniffing(interface: str) -> Iterator[tuple[bytes, int]]:
    """Captures on an interface during the block, which gets the first bytes of the capture and the descriptor
    of a pipe with the others. Raises DissectError, with one line of text, if no program is installed or if it
    fails."""
    program = next((name for name in _COMMANDS if shutil.which(name)), None)
    if program is None:
        raise DissectError(
            f"{interface}: neither dumpcap nor tcpdump is installed to capture on it"
        )
    with TemporaryFile() as stderr:
        process = subprocess.Popen(
            [program, *_COMMANDS[program], interface],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        assert process.stdout is not None
        with process.stdout as pipe:
            try:
                first = os.read(pipe.fileno(), _HEADER_BYTES)
                if not first:
                    process.wait()
                    stderr.seek(0)
                    raise DissectError(f"{interface}: {program}: {_reason(program, stderr.read())}")
                yield first, pipe.fileno()
            finally:
                _end(process)


def _reason(program: str, stderr: bytes) -> str:
    """The first line that says what is wrong; the lines after it are advice."""
    lines = stderr.decode("utf-8", "replace").splitlines()
    messages = [
        line.strip() for line in lines if line.strip() and not line.startswith("Capturing on")
    ]
    return messages[0].removeprefix(f"{program}: ") if messages else "it ended without a packet"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
