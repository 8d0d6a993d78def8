"""The terminal of `nats-dissect top`: keys, one at a time, and a screen that is redrawn each second.

There is no thread here: the reader of the capture calls `Screen.wait` when it would block for more bytes, and
`Screen.poll` now and then while it has enough. Keys come from the controlling terminal, because standard
input may be the capture. The terminal is restored at the end, also after an error.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from contextlib import ExitStack
from time import monotonic
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ...capture import CaptureReport
from ...output.terminal import Terminal
from .page import screen_text
from .traffic import TopTraffic
from .views import Controls

_TERMINAL = "/dev/tty"
_ARROWS = {b"\x1b[D": "left", b"\x1b[C": "right", b"\x1bOD": "left", b"\x1bOC": "right"}
_KEYS_AT_ONCE = 64


class Quit(Exception):
    """The user wants to leave."""


class Keys:
    """The keys of the controlling terminal, without echo and without waiting for Enter. Without such a
    terminal, there are no keys. Ctrl-C interrupts as usual; Ctrl-Z does nothing, because the shell would get
    the terminal in this mode."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []
        self._left = ExitStack()

    def __enter__(self) -> Keys:
        try:
            import termios
            import tty

            descriptor = os.open(_TERMINAL, os.O_RDONLY | os.O_NOCTTY)
        except (ImportError, OSError):
            return self
        self._left.callback(os.close, descriptor)
        old = termios.tcgetattr(descriptor)
        self._left.callback(termios.tcsetattr, descriptor, termios.TCSADRAIN, old)
        tty.setcbreak(descriptor)
        new = termios.tcgetattr(descriptor)
        new[6][termios.VSUSP] = os.fpathconf(descriptor, "PC_VDISABLE").to_bytes(1, "big")
        termios.tcsetattr(descriptor, termios.TCSADRAIN, new)
        self.descriptors = [descriptor]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.descriptors = []
        self._left.close()

    def read(self, descriptor: int) -> list[str]:
        """The pressed keys, without unknown escape sequences. Raises Quit if the terminal is gone."""
        try:
            pressed = os.read(descriptor, _KEYS_AT_ONCE)
        except OSError:
            pressed = b""
        if not pressed:  # the terminal is gone
            raise Quit
        return keys_of(pressed)


def keys_of(pressed: bytes) -> list[str]:
    """Bytes from a terminal as keys: characters, `left` and `right`."""
    if pressed in _ARROWS:
        return [_ARROWS[pressed]]
    if pressed.startswith(b"\x1b") and len(pressed) > 1:
        return []
    return list(pressed.decode("utf-8", "ignore"))


class Screen:
    """Draws `traffic` on the alternate screen of the terminal, each `interval` seconds and after each key.

    Rates are per second of the capture, which may be read faster than it was recorded. If the reader had to
    wait during an interval, the interval counts at least its length on the clock.
    """

    def __init__(
        self,
        traffic: TopTraffic,
        report: CaptureReport,
        controls: Controls,
        keys: Keys,
        interval: float,
        look: Callable[[], tuple[Terminal, int]],
    ) -> None:
        self.note = ""
        self._traffic = traffic
        self._report = report
        self._controls = controls
        self._keys = keys
        self._interval = interval
        self._look = look
        self._console = Console(file=sys.stdout, highlight=False, markup=False)
        self._live = Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._measured = monotonic()
        self._latest_ns: int | None = None
        self._waited = False

    def __enter__(self) -> Screen:
        self._live.start()
        self._draw()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.stop()

    def wait(self, descriptors: list[int], seconds: float | None = None) -> list[int]:
        """Waits until a descriptor is readable, a key is pressed, `seconds` have passed or the screen is due.
        Returns the readable descriptors. Raises Quit."""
        self._waited = True
        left = max(0.0, self._measured + self._interval - monotonic())
        return self._select(descriptors, left if seconds is None else min(left, seconds))

    def poll(self) -> None:
        """Handles pressed keys, and draws if the screen is due. Raises Quit."""
        self._select([], 0)

    def _select(self, descriptors: list[int], seconds: float) -> list[int]:
        keys = self._keys.descriptors
        ready, _, _ = select.select([*keys, *descriptors], [], [], seconds)
        for descriptor in keys:
            if descriptor in ready:
                for key in self._keys.read(descriptor):
                    self._controls.press(key)
                if self._controls.quit:
                    raise Quit
                self._draw()
        if monotonic() >= self._measured + self._interval:
            self._measure()
            if not self._controls.paused:
                self._draw()
        return [descriptor for descriptor in descriptors if descriptor in ready]

    def _measure(self) -> None:
        now = monotonic()
        passed = now - self._measured
        latest = [file.last_ns for file in self._report.files if file.last_ns is not None]
        latest_ns = max(latest, default=None)
        first_ns = min(
            (file.first_ns for file in self._report.files if file.first_ns is not None), default=0
        )
        if latest_ns is not None:
            before = first_ns if self._latest_ns is None else self._latest_ns
            captured = (latest_ns - before) / 1e9
            passed = max(captured, passed) if self._waited or captured <= 0 else captured
        self._traffic.measure(passed)
        self._measured, self._latest_ns, self._waited = now, latest_ns, False

    def _draw(self) -> None:
        terminal, height = self._look()
        text = screen_text(self._traffic, self._report, self._controls, terminal, height, self.note)
        self._live.update(Text.from_ansi(text, no_wrap=True, end=""), refresh=True)
