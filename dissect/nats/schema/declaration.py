"""How a table is declared: name, columns, time, order, text layout, and the layer that makes its rows.

A declaration is all that the rest of the package knows of a table: every output format, the command line,
SQL, the Python functions and Spark read it. The declarations themselves are in `tables` and `application`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import NamedTuple, Protocol, get_args, get_type_hints

from ..secrets.redact import NO_SECRETS, Secrets
from .payload import Payload
from .records import Counts, FrameRecord, Headers, Record

ARROWS = {"originator": ">", "responder": "<"}
"""How text shows the sender: `>` for the side that opened the TCP connection, `<` for the other side."""

SortPosition = tuple[int | str, ...]
"""The position of a row in its table. It begins with the row's time, and only equal rows share a position."""


class Type(Enum):
    """The type of the values in a column."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    TIME = "time"
    TEXTS = "list of texts"
    COUNTS = "map of text to integer"
    HEADERS = "map of text to list of texts"


class Column(NamedTuple):
    """One column of a table. `optional` is true if values may be absent. `field` is the record's field with
    the value: it has the column's name, except for `time`, which shows the table's time column as a time.
    """

    name: str
    type: Type
    meaning: str
    optional: bool
    field: str


_TYPES = {
    str: Type.TEXT,
    int: Type.INTEGER,
    bool: Type.BOOLEAN,
    list[str]: Type.TEXTS,
    Counts: Type.COUNTS,
    Headers: Type.HEADERS,
}


@cache
def declared(record: type) -> dict[str, tuple[Column, tuple[object, ...]]]:
    """The columns of a class of records by name, each with what its declaration has beside type and meaning:
    the cell of text tables, the member of JSON that it shows."""
    hints = get_type_hints(record, include_extras=True)
    found = {}
    for name in [item.name for item in fields(record)]:
        annotation, meaning, *more = get_args(hints[name])
        some = [part for part in get_args(annotation) if part in _TYPES]
        optional = type(None) in get_args(annotation)
        plain = some[0] if optional and some else annotation
        if plain not in _TYPES:
            raise TypeError(f"{record.__name__}.{name}: no column can be of type {annotation}")
        found[name] = Column(name, _TYPES[plain], meaning, optional, name), tuple(more)
    return found


@cache
def columns_of(record: type[Record], time: str) -> tuple[Column, ...]:
    """The columns of a class of records. After the column named by `time` comes the column "time"."""
    found = []
    for name, (column, _) in declared(record).items():  # type: ignore[arg-type]  # a class can be hashed
        found.append(column)
        if name == time:
            meaning = f"`{time}` as a time in UTC"
            found.append(Column("time", Type.TIME, meaning, column.optional, name))
    return tuple(found)


class TextColumn(NamedTuple):
    """A column of text output; `cell` makes its text from a record.

    It may stand in the declaration of a column, `Annotated[int, MEANING, TextColumn("seq", 6)]`, from where
    `text_columns` takes it. Without `cell`, it shows the value as `render` writes it, or nothing if that
    is absent or, with `quiet`, 0. A lambda in an annotation does not see the names of its module.

    On a narrow terminal, `shorter` shortens the cells, and `short` is the title. With `may_cut`, cells may be
    cut. `rank` is the order in which columns are left out: the highest first, then those of rank 0 from the
    right, those with an `alarm` and the first column last. `usual` is the width if rows are shown as they
    come. A row with a value in an `alarm` column is red. With `always`, the column is shown even without
    values.
    """

    name: str
    usual: int
    cell: Callable[..., str] = str
    right: bool = False
    short: str = ""
    shorter: Callable[[str], str] = str
    may_cut: bool = False
    rank: int = 0
    alarm: bool = False
    always: bool = False
    render: Callable[..., str] = str
    quiet: bool = False


def text_columns(record: type[Record], names: str) -> tuple[TextColumn, ...]:
    """The text columns in the declarations of these columns, in this order. Numbers are aligned right."""
    return tuple(_text_column(record, name) for name in names.split())


def _text_column(record: type[Record], name: str) -> TextColumn:
    column, more = declared(record)[name]  # type: ignore[arg-type]  # a class can be hashed
    (text,) = (each for each in more if isinstance(each, TextColumn))
    if text.cell is not str:
        return text
    get, render, quiet = attrgetter(name), text.render, text.quiet

    def cell(row: Record) -> str:
        value = get(row)
        return "" if value is None or (quiet and not value) else render(value)

    return text._replace(cell=cell, right=text.right or column.type is Type.INTEGER)


@dataclass(slots=True, kw_only=True)
class LayerFrame(FrameRecord):
    """A frame as an application layer gets it: its row, headers included, and its payload in `content`.

    `content` is not a column. It goes from the framing to the layer and no further; what a layer shows of it
    in its own rows is the layer's decision. `shown` is how the user wants payloads to be shown. `secrets` are
    those that the session has shown until then: texts that may repeat them are masked.
    """

    content: bytes = b""
    shown: Payload = Payload.NONE
    secrets: Secrets = NO_SECRETS

    @property
    def is_whole(self) -> bool:
        """Whether all of the payload was captured."""
        return self.captured_bytes is None

    @property
    def missing_bytes(self) -> int:
        """The size of the part of the payload that was not captured."""
        if self.captured_bytes is None:
            return 0
        return (self.payload_bytes or 0) - self.captured_bytes

    def shown_payload(self) -> tuple[str | None, str | None]:
        """The columns `payload` and `payload_sha256` of a row about this message."""
        return self.shown.columns(self.content, self.is_whole)


class ApplicationState(Protocol):
    """The state of an application layer for one session. It is pickled when another process continues the
    session."""

    def add(self, frame: LayerFrame) -> Iterable[Record]:
        """Takes the next frame that the layer wants; returns the rows that it completes."""

    def finish(self) -> Iterable[Record]:
        """Ends the session; returns the remaining rows."""


class AwaitingState(ApplicationState, Protocol):
    """The state of a layer that reads `marked` messages."""

    def awaited(self) -> Collection[str] | None:
        """The reply subjects under which it waits for answers; None if it reads every message from now on."""


@dataclass(slots=True)
class LayerItem(Record):
    """Data about a frame in a grouped layer, for the stage with this number.

    That stage gets the items with the same `key` together, ordered by `ts_ns`, `session` and `number`. `body`
    has only values of built-in types, so that it can be written to disk or sent to another machine.
    """

    stage: int
    key: bytes
    ts_ns: int
    session: str
    number: int
    body: tuple[object, ...]


Group = Iterator[LayerItem]
"""The items of one key, in order."""


class Work(Protocol):
    """All items of a grouped layer, by stage: on this machine, or in tasks on many machines."""

    def run(self, stage: int, function: Callable[[Iterator[Group]], Iterable[LayerItem]]) -> None:
        """Calls the function with the groups of a stage, each group once, and adds the items that it returns,
        which are for later stages. Several tasks may each call it with some of the groups. Then frees the
        items of this stage."""

    def first(self, stage: int, limit: int) -> list[LayerItem]:
        """The first items of a stage, in order of their keys, and within a key as in a group."""


class LastStage(NamedTuple):
    """The stage of a grouped layer that makes the rows, and the function that makes them from its groups."""

    stage: int
    function: Callable[[Iterator[Group]], Iterable[Record]]


@dataclass(frozen=True, slots=True)
class ApplicationLayer:
    """An application protocol above NATS, which makes the rows of a table from frames.

        class Sizes:
            def add(self, frame: LayerFrame) -> Iterable[Record]:
                return [SizeRecord(session=frame.session, ts_ns=frame.ts_ns, bytes=len(frame.content))]

            def finish(self) -> Iterable[Record]:
                return ()

        layer = ApplicationLayer(frozenset({"PUB", "HPUB"}), Sizes)

    `ops` are the operations of the frames that it reads: the payloads of other frames are not kept, and Spark
    does not move them. `start` makes a state, which gets the frames of one session in order. To limit its
    memory, a state returns rows as soon as they are complete. `start` must be importable by name, because
    other processes call it, and the state must depend only on its frames, so that every way to run the layer
    gives the same rows.

    A layer `across` sessions has one state for all of them; their frames come interleaved in any order, and
    its rows must not depend on that order. A `grouped` layer has one state for each session, whose rows are
    items, and `grouped` runs the stages that make the rows of the table from the items of all sessions.

    If a layer is `marked`, its states are `AwaitingState`s, or read no messages. Of the messages of a
    client's connection, they then read only those that ask (PUB with a reply subject) or answer, that have
    headers, whose subject or reply subject has `$`, `.STREAM.`, `.CONSUMER.` or `.DIRECT.GET.`, whose subject
    begins with `_STAN.`, or whose payload begins as one of NATS Streaming does; others mean nothing to them.
    The kernel tests that (`kernel/frames.py`).
    """

    ops: frozenset[str]
    start: Callable[[], ApplicationState]
    across: bool = False
    grouped: Callable[[Work], LastStage] | None = None
    marked: bool = False

    def rows(self, frames: Iterable[LayerFrame]) -> Iterator[Record]:
        """The rows of frames that the layer reads: of one session, or of all if it is `across` and not
        `grouped`. For a grouped layer, the rows are items."""
        state = self.start()
        for frame in frames:
            yield from state.add(frame)
        yield from state.finish()


class Unchanged:
    """The state of a layer whose rows are the frames themselves."""

    def add(self, frame: LayerFrame) -> Iterable[Record]:
        """Returns the frame."""
        return (frame,)

    def finish(self) -> Iterable[Record]:
        """Returns nothing."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table.

    `row` is the class of its records, `time` the column with the time of a row, and `position` orders the
    rows. `window` is the number of rows that are held back to bring late rows into order: a row that comes
    even later stays late. `at_end` is true if rows are complete only when their connection is over. A table
    without `text` columns has its own line format (`output.text_lines`). `layer` makes the rows; without it,
    the engine makes them. With `payloads`, frames keep their payloads, which takes time.
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
    layer: ApplicationLayer | None = None
    payloads: bool = False

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"table {self.name!r}: a name is one word of letters, digits and _")
        if self.time not in {item.name for item in fields(self.row)}:
            raise ValueError(f"table {self.name!r}: its record has no column {self.time!r}")

    @property
    def shows_payloads(self) -> bool:
        """Whether its rows are about one message each and show the payload if requested."""
        return "payload" in {item.name for item in fields(self.row)}

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of its records, found on first use, because a command uses few tables."""
        return columns_of(self.row, self.time)  # type: ignore[arg-type]  # a class can be hashed
