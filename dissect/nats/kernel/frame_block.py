"""Rows of frames as columns, as the kernel makes them. `output.arrow.block_columns` makes Arrow arrays of
them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..engine.session_tables import ReleasedRows
from ..schema.records import Record

NumpyArray = Any
"""An array of numpy, whose types a checker without numpy cannot know."""


class Sender(NamedTuple):
    """Columns that are the same for all frames that one side of a connection sent."""

    session: str
    sender: str
    kind: str
    account: str


@dataclass(slots=True, eq=False)
class FrameBlock(Record):
    """All rows of frames that consecutive packets complete.

    `numbers` has an array for each column of `state.R_...`, `texts` the ends and the bytes for each of
    `state.T_...`. Codes of labels and captures are indices into `senders` and `captures`. `releases` has
    the runs of frames that Python has made of these packets and of others between them.
    """

    numbers: NumpyArray
    texts: Sequence[tuple[NumpyArray, NumpyArray]]
    senders: Sequence[Sender]
    captures: Sequence[str]
    releases: Sequence[ReleasedRows]
