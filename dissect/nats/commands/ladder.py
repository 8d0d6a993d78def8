"""`paths --message SESSION:NUMBER`: the path of one message as a ladder, one line per hop.

message 60985db70b0da478:6 orders.new
   0 ns  client > east-1                  PUB   60985db70b0da478:6
 212 us    east-1 > west-1      +212 us   RMSG  8c1f30b2a4c7d9e0:41  unique
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..application.paths.rows import PathRecord, is_named
from ..errors import DissectError
from ..number_formats import duration_text, time_text
from ..output.writer import LineWriter, OutputFormat
from ..schema.records import Record, printable
from .rows import rows_of
from .run import Command, RenderedRows, print_chunks


class NoMessage(DissectError):
    """`message` names no publication, or more than one."""

    def __init__(self, message: str, found: int) -> None:
        self.message = message
        self.found = found
        super().__init__(message, found)

    def __str__(self) -> str:
        if self.found:
            return f"{self.found} messages begin with {self.message}: name more of the session"
        return (
            f"no publication {self.message} in the captures; `paths` lists them by SESSION:NUMBER"
        )


def print_ladder(run: Command, message: str) -> None:
    """Prints the path of the publication that `message` names. Raises NoMessage."""

    run.options.refuse(
        ("format", "columns", "where", "sort", "limit", "csv_safe", "jobs"),
        "--message, which shows all hops of one message as text",
    )

    def chunks() -> Iterator[RenderedRows]:
        yield RenderedRows([*ladder(rows_of(run.table, run.options, run.report), message)])

    print_chunks(run, OutputFormat(str, LineWriter), chunks(), silent=True)


def ladder(rows: Iterable[Record], message: str) -> Iterator[str]:
    """The lines of one message's path. Raises NoMessage."""
    hops = [row for row in rows if isinstance(row, PathRecord) and is_named(row.message, message)]
    named = {row.message for row in hops}
    if len(named) != 1:
        raise NoMessage(message, len(named))
    hops.sort(key=lambda row: row.hop)
    first = hops[0]
    many = "many" if first.copies is None else first.copies
    equal = "" if first.copies == 1 else f", one of {many} equal ones"
    yield f"message {first.message} {printable(first.subject)}{equal}\n"
    yield f"published {time_text(first.ts_ns)}\n"
    yield from sorted({_correction(row) for row in hops if row.clock_ns is not None})
    yield "\n"
    depths: dict[str | None, int] = {}
    lines = []
    for row in hops:
        depth = 0 if row.hop == 1 else depths.get(row.from_server, 0) + 1
        if row.to_server and row.to_server not in depths:
            depths[row.to_server] = depth
        ends = f"{row.from_server or 'client'} > {row.to_server or 'client'}"
        since = "" if row.since_ns is None else f"+{duration_text(row.since_ns)}"
        frame = f"{row.op:<4}  {row.session}:{row.number}"
        lines.append((row, "  " * depth + printable(ends), since, frame))
    width = max(len(ends) for _, ends, _, _ in lines)
    for row, ends, since, frame in lines:
        after = "" if row.passed else duration_text(row.total_ns or 0)
        text = f"{after:>8}  {ends:<{width}}  {since:>9}  {frame}"
        subject = f" as {printable(row.subject)}" if row.subject != first.subject else ""
        passed = f", {row.passed} of {many} passed" if row.passed else ""
        yield f"{text}  {row.matched_by or ''}{passed}{subject}".rstrip() + "\n"


def _correction(row: PathRecord) -> str:
    """A line about the clock correction of a hop's session."""
    clock_ns = row.clock_ns or 0
    error = "at least" if row.clock_error_ns is None else f"± {duration_text(row.clock_error_ns)}"
    sign = "+" if clock_ns > 0 else ""
    return f"clock of session {row.session} corrected by {sign}{duration_text(clock_ns)}, {error}\n"
