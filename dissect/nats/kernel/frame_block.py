"""Rows of frames as columns, as the kernel makes them. `output.arrow.block_columns` makes Arrow arrays of
them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, NamedTuple

from ..engine.frame_rows import headers_of
from ..engine.session_tables import ReleasedRows
from ..schema.records import Headers, Record, text_of
from ..secrets.redact import Secrets
from . import state

NumpyArray = Any
"""An array of numpy, whose types a checker without numpy cannot know."""


class Sender(NamedTuple):
    """Columns that are the same for all frames that one side of a connection sent, and the secrets to mask in
    their headers."""

    session: str
    sender: str
    kind: str
    account: str
    secrets: Secrets


@dataclass(slots=True, eq=False)
class FrameBlock(Record):
    """All rows of frames that consecutive packets complete.

    `numbers` has an array for each column of `state.R_...`, `texts` the ends and the bytes for each of
    `state.T_...`. Codes of labels and captures are indices into `senders` and `captures`. `releases` has
    the rows of frames that Python has made of these packets and of others between them.
    """

    numbers: NumpyArray
    texts: Sequence[tuple[NumpyArray, NumpyArray]]
    senders: Sequence[Sender]
    captures: Sequence[str]
    releases: Sequence[ReleasedRows]

    def texts_of(self, text: int) -> list[str]:
        """All texts of one kind."""
        ends, data = self.texts[text][0].tolist(), self.texts[text][1].tobytes()
        if data.isascii():
            whole = data.decode("ascii")
            return [whole[start:stop] for start, stop in pairwise(ends)]
        return [text_of(data[start:stop]) for start, stop in pairwise(ends)]

    def masked_headers(self) -> dict[int, Headers]:
        """The headers that the kernel has split and in which secrets are to be masked, without them, by the
        index of their row. Only a block that has such headers has a cost for each of its rows."""
        known = [sender.secrets for sender in self.senders]
        whole = b"\0".join(self.texts[text][1].tobytes() for text in (state.T_NAME, state.T_VALUE))
        if not whole or not known[0].joined(known).may_be_in(text_of(whole)):
            return {}
        texts = zip(self.texts_of(state.T_NAME), self.texts_of(state.T_VALUE))
        counts, labels = self.numbers[state.R_FIELDS], self.numbers[state.R_LABEL]
        masked: dict[int, Headers] = {}
        for row in (counts > 0).nonzero()[0].tolist():
            fields, secrets = list(islice(texts, int(counts[row]))), known[labels[row]]
            if any(secrets.may_be_in(text) for field in fields for text in field):
                masked[row] = headers_of(fields, secrets.masked)
        return masked
