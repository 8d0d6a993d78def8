"""A terminal of its own for a program: what it shows, and keys for it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic

from tests.support.paths import ROOT

# Makes the terminal on stdout the controlling one of the new session, which /dev/tty names.
_OWN = (
    "import fcntl, os, sys, termios; fcntl.ioctl(1, termios.TIOCSCTTY, 0);"
    " os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
SECONDS = 50.0


class Terminal:
    """The terminal and the program on it. `seen` is all that it has printed."""

    def __init__(self, columns: int, lines: int, args: tuple[str, ...], stdin: int | None) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))
        self._modes = termios.tcgetattr(self._theirs)
        self.seen = b""
        self.program = subprocess.Popen(
            [sys.executable, "-c", _OWN, *args],
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=self._theirs,
            stderr=self._theirs,
            env={**os.environ, "TERM": "xterm", "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )

    def press(self, keys: str) -> None:
        """Types these keys."""
        os.write(self._ours, keys.encode())

    def shows(self, text: str) -> None:
        """Waits until the program prints this text, from now on or since the last call."""
        wanted = text.encode()
        end = monotonic() + SECONDS
        while wanted not in self.seen:
            assert monotonic() < end, f"{text!r} did not come: {self.seen[-3000:]!r}"
            self._read(1.0)
        self.seen = self.seen.rpartition(wanted)[2]

    def left(self) -> tuple[int, bool]:
        """Waits for the end of the program: its exit status, and whether the terminal is as it was."""
        end = monotonic() + SECONDS
        while self.program.poll() is None:
            assert monotonic() < end, f"the program goes on: {self.seen[-3000:]!r}"
            self._read(0.1)
        while self._read(0.0):
            pass
        return self.program.returncode, termios.tcgetattr(self._theirs) == self._modes

    def close(self) -> None:
        """Ends the program, if it runs."""
        if self.program.poll() is None:
            self.program.kill()
            self.program.wait()
        os.close(self._ours)
        os.close(self._theirs)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], seconds)
        if ready:
            with suppress(OSError):
                self.seen += os.read(self._ours, 1 << 16)
        return bool(ready)


@contextmanager
def terminal(
    *args: str, columns: int = 80, lines: int = 24, stdin: int | None = None
) -> Iterator[Terminal]:
    """A terminal on which `python *args` runs."""
    made = Terminal(columns, lines, args, stdin)
    try:
        yield made
    finally:
        made.close()
