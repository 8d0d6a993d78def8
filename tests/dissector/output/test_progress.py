"""The bar on stderr."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from dissect.nats.capture import CaptureReport, FileReport
from dissect.nats.output import progress

from tests.dissector.output.test_terminal import Terminal


def drawn(report: CaptureReport, quiet: float, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a terminal got to see, without colours."""
    output = Terminal()
    console = Console(file=output, force_terminal=True, width=120)
    monkeypatch.setattr(progress, "_Stderr", lambda stderr: console)
    with progress.bar(report, quiet) as clear:
        clear()
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output.getvalue())


def report(size: int | None) -> CaptureReport:
    return CaptureReport([FileReport("a", "a", packets=1234, position=50)], size=size)


def test_a_bar_tells_how_much_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = drawn(report(100), 0, monkeypatch)
    assert "50/100 bytes" in shown and "1,234 packets" in shown and "left" in shown


def test_without_a_size_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = drawn(report(None), 0, monkeypatch)
    assert "1,234 packets" in shown and "left" not in shown


def test_short_work_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "packets" not in drawn(report(100), 60, monkeypatch)
    assert "packets" not in drawn(CaptureReport(), 0, monkeypatch)


def test_it_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.bar(report(100), 0):
        pass
    assert capsys.readouterr().out == ""
