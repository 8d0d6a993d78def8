"""A table that exists only in tests: the file is copied into `application`, and nothing else is touched.

It pairs the publications of a session with the size that the session had published before, so its rows
depend on the order of the frames, on headers and on payloads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from operator import attrgetter
from typing import Annotated

from ..schema.declaration import ApplicationLayer, LayerFrame, Table, TextColumn
from ..schema.records import Record


@dataclass(slots=True, kw_only=True)
class ToyRecord(Record):
    """One publication."""

    session: Annotated[str, "session id"]
    number: Annotated[int, "number of its frame"]
    ts_ns: Annotated[int, "time of its frame"]
    subject: Annotated[str, "its subject"]
    digest: Annotated[str, "SHA-256 of its payload"]
    headers: Annotated[int | None, "how many header fields it has"] = None
    before_bytes: Annotated[int, "what the session published before it"]


class Toys:
    """One session: the bytes so far."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, frame: LayerFrame) -> Iterable[Record]:
        """The row of a publication."""
        yield ToyRecord(
            session=frame.session,
            number=frame.number,
            ts_ns=frame.ts_ns,
            subject=frame.subject or "",
            digest=sha256(frame.content).hexdigest(),
            headers=len(frame.headers) if frame.headers else None,
            before_bytes=self._bytes,
        )
        self._bytes += len(frame.content)

    def finish(self) -> Iterable[Record]:
        """The row that ends the session."""
        return ()


TOYS = Table(
    name="toys",
    singular="publication",
    summary="List publications of the test.",
    row=ToyRecord,
    time="ts_ns",
    position=attrgetter("ts_ns", "session", "number"),
    text=(
        TextColumn("subject", 20, attrgetter("subject"), may_cut=True),
        TextColumn("before", 8, lambda row: str(row.before_bytes), right=True),
    ),
    layer=ApplicationLayer(frozenset({"PUB", "HPUB"}), Toys),
    payloads=True,
)
