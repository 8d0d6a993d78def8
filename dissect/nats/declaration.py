"""How a table is declared: name, columns, time, order, text layout, and the layer that makes its rows.

A declaration is all that the rest of the package knows of a table: every output format, the command line,
SQL, the Python functions and Spark read it. The declarations themselves are in `tables` and `application`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from .records import Column, Record, columns_of

ARROWS = {"originator": ">", "responder": "<"}
"""How text shows the sender: `>` who opened the TCP connection, `<` who accepted it."""

SortPosition = tuple[int | str, ...]
"""The place of a row in its table: its time first, and no two alike but for equal rows."""


class TextColumn(NamedTuple):
    """A column of the text that people read; `cell` makes its text from a record.

    On a narrow terminal `shorter` shortens the cells and `short` is the title. With `gives` cells may be cut.
    `rank` is the order in which columns are left out: the highest first, then those of rank 0 from the right,
    those with an `alarm` and the first column last. `usual` is the width where rows are shown as they come.
    A row with a value in an `alarm` column is red. With `always` the column is shown even without values.
    """

    name: str
    usual: int
    cell: Callable[..., str] = str
    right: bool = False
    short: str = ""
    shorter: Callable[[str], str] = str
    gives: bool = False
    rank: int = 0
    alarm: bool = False
    always: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table.

    `row` is the class of its records, `time` the column with the time of a row, and `position` orders the
    rows. `window` is how many rows are held back to bring late ones into order: a row that comes later
    than that stays late. `at_end` tells that rows are complete only when their connection is over. A table
    without `text` columns has a line of its own (`output.text_lines`).
    """

    name: str
    singular: str
    summary: str
    row: type[Record]
    time: str
    position: Callable[..., SortPosition]
    text: tuple[TextColumn, ...] = ()
    window: int = 50_000
    at_end: bool = False
    columns: tuple[Column, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", columns_of(self.row, self.time))
