"""How text looks where it goes."""

from __future__ import annotations

import io

import pytest

from dissect.nats.output.terminal import PLAIN, painted, terminal_of


class Terminal(io.StringIO):
    """What says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_width_and_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "77")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert terminal_of(Terminal()) == (77, True)
    assert terminal_of(io.StringIO()) == PLAIN


@pytest.mark.parametrize("name, value", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_who_wants_no_colours_gets_none(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)
    assert not terminal_of(Terminal()).colour


def test_painted_text_has_the_codes_of_its_colour() -> None:
    assert painted("x", "red") == "\x1b[31mx\x1b[0m"
    assert painted("x", "") == "x"
