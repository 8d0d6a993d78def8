"""Tables for people: as wide as the terminal, aligned text elsewhere.

The first rows set the widths of the columns for all later rows, so a table may have any number of rows. On a
terminal that is too narrow, cells take their shorter forms, then wide columns are cut, then columns are left
out, and the last line names those. A column without values is not shown until a value comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TextIO

from rich.cells import cell_len, set_cell_size

from ...schema.declaration import TextColumn
from ...schema.records import printable
from ..terminal import Terminal, painted
from ..writer import Rendered

_HELD = 1000
_BETWEEN = "  "
_LEAST = 8  # the least width of a column that is cut


class _FittedColumn(NamedTuple):
    """A column with its index in the rows and its current width."""

    at: int
    field: TextColumn
    title: str
    cut: Callable[[str], str]
    width: int


class GridWriter:
    """Takes rows of cells, one cell per field. With `live`, each row is shown at once."""

    def __init__(
        self, output: TextIO, fields: Sequence[TextColumn], look: Terminal, live: bool
    ) -> None:
        self._output = output
        self._fields = fields
        self._look = look
        self._live = live
        self._held: list[Sequence[str]] = []
        self._shown: list[_FittedColumn] = []
        self._empty: set[int] = set(range(len(fields)))  # columns not shown yet
        self._hidden: list[str] = []

    def write(self, rows: Sequence[Rendered]) -> None:
        """Takes the next rows."""
        self._held += rows  # type: ignore[arg-type]  # cells, from `format.Text`
        if self._live or len(self._held) >= _HELD:
            self._print()

    def close(self) -> None:
        """Ends the table."""
        self._print()
        if self._hidden:
            names = ", ".join(self._hidden)
            self._output.write(f"not shown in {self._look.width} columns: {names}\n")

    def _print(self) -> None:
        rows, self._held = self._held, []
        if not rows:
            return
        filled = {
            at for at in self._empty if self._live or self._fields[at].always or _any(rows, at)
        }
        if filled:
            self._empty -= filled
            self._lay_out(rows)
            self._output.write(self._head())
        self._output.write("".join(map(self._line, rows)))

    def _lay_out(self, rows: Sequence[Sequence[str]]) -> None:
        """Decides which columns are shown and how wide they are."""
        sample = [] if self._live else rows
        width = self._look.width
        at_hand = [at for at in range(len(self._fields)) if at not in self._empty]
        shown = [self._column(at, sample, short=False) for at in at_hand]
        if width is not None and _total(shown) > width:
            shown = [self._column(at, sample, short=True) for at in at_hand]
            shown = _narrowed(shown, width)
        self._shown = shown
        kept = {column.at for column in shown}
        self._hidden = [self._fields[at].name for at in at_hand if at not in kept]

    def _column(self, at: int, rows: Sequence[Sequence[str]], short: bool) -> _FittedColumn:
        item = self._fields[at]
        title = (short and item.short) or item.name
        cut = item.shorter if short else str
        widest = max((cell_len(printable(cut(row[at]))) for row in rows), default=item.usual)
        if not rows and short:
            widest = min(widest, cell_len(cut("0" * item.usual)))
        return _FittedColumn(at, item, title, cut, max(widest, len(title)))

    def _head(self) -> str:
        titles = (_aligned(item.title, item, True) for item in self._shown)
        line = self._fitted(_BETWEEN.join(titles).rstrip())
        if self._look.width is None:
            return f"{line}\n"
        rule = "\u2500" * min(_total(self._shown), self._look.width)
        style = "bold" if self._look.colour else ""
        return f"{painted(line, style)}\n{painted(rule, style and 'dim')}\n"

    def _line(self, row: Sequence[str]) -> str:
        cut = self._look.width is not None
        cells = (_aligned(printable(item.cut(row[item.at])), item, cut) for item in self._shown)
        line = self._fitted(_BETWEEN.join(cells).rstrip())
        if self._look.colour and any(row[item.at] and item.field.alarm for item in self._shown):
            line = painted(line, "red")
        return f"{line}\n"

    def _fitted(self, line: str) -> str:
        """The line on one line of the terminal, however narrow."""
        width = self._look.width
        if width is None or cell_len(line) <= width:
            return line
        return set_cell_size(line, max(0, width - 1)) + "\u2026"


def _any(rows: Sequence[Sequence[str]], at: int) -> bool:
    return any(row[at] for row in rows)


def _total(shown: Sequence[_FittedColumn]) -> int:
    return sum(item.width for item in shown) + len(_BETWEEN) * (len(shown) - 1)


def _narrowed(shown: list[_FittedColumn], width: int) -> list[_FittedColumn]:
    """The columns that fit: leaves some out if cutting does not suffice, then cuts the widest."""
    while len(shown) > 1 and _least(shown) > width:
        at = max(
            range(1, len(shown)),
            key=lambda at: (shown[at].field.rank, not shown[at].field.alarm, at),
        )
        del shown[at]
    while _total(shown) > width:
        at = max(range(len(shown)), key=lambda i: shown[i].width if shown[i].field.may_cut else -1)
        if not shown[at].field.may_cut or shown[at].width <= _LEAST:
            break
        shown[at] = shown[at]._replace(width=shown[at].width - 1)
    return shown


def _least(shown: list[_FittedColumn]) -> int:
    """The least width of these columns, with all of them cut that may be cut."""
    return _total(shown) - sum(max(0, item.width - _LEAST) for item in shown if item.field.may_cut)


def _aligned(text: str, item: _FittedColumn, cut: bool) -> str:
    size = len(text) if text.isascii() else cell_len(text)
    if size > item.width and cut:
        return set_cell_size(text, item.width - 1) + "\u2026"
    blanks = " " * (item.width - size)
    return blanks + text if item.field.right else text + blanks
