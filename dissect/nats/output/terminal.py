"""The look of text: in colour and as wide as the terminal on terminals, plain elsewhere."""

from __future__ import annotations

import os
import shutil
from typing import NamedTuple, TextIO

_CODES = {"red": "31", "bold red": "1;31", "green": "32", "yellow": "33", "cyan": "36", "dim": "2"}
_CODES |= {"bold": "1"}


class Terminal(NamedTuple):
    """`width` is the width of the terminal; None elsewhere, where lines may have any length."""

    width: int | None = None
    colour: bool = False


PLAIN = Terminal()


def terminal_of(output: TextIO) -> Terminal:
    """The settings that suit `output`. https://no-color.org is respected."""
    if not output.isatty():
        return PLAIN
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown")
    return Terminal(shutil.get_terminal_size().columns, not plain)


def painted(text: str, style: str) -> str:
    """`text` in a style; unchanged if the style is empty."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style else text
