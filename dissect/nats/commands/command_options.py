"""The options that commands have beside those of the dissection, each declared once, and the captures and
options of one command as one value."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from ..capture.sources import STDIN
from ..capture.time_range import TimeBound, TimeRange, check_bounds
from ..errors import DissectError
from ..option_types import Opt, OptionGroup, changed, declared, file_name, flag, one_of, text, whole
from ..options import Options
from ..output.formats import FORMATS
from ..output.sink import Fault

DOT = "dot"
"""The Graphviz format, which only `servers` has, besides the formats of every table."""

_O = TypeVar("_O", bound="CommandOptions")


def format_of(names: Collection[str], **meanings: str) -> Opt:
    """`--format`, with these formats; `meanings` are those of formats that are not in `FORMATS`."""
    known = {name: form.meaning for name, form in FORMATS.items()} | meanings
    texts = "; ".join(f"{name}: {known[name]}" for name in names)
    return Opt(OptionGroup.OUTPUT, one_of(names), f"How to write rows. {texts}.", common=True)


def file_of(help: str, required: bool = False, metavar: str = "FILE") -> Opt:
    """`-o`, for a command that must or can write to a file."""
    form = file_name(metavar)
    flags = ("-o", "--output")
    return Opt(OptionGroup.OUTPUT, form, help, flags=flags, required=required, common=True)


def jobs_of(default: str) -> Opt:
    """`--jobs`, for a command that uses this number of processes by default."""
    text = "Share the work among N processes, 0 for all cores; the rows are the same."
    return Opt(OptionGroup.OUTPUT, whole(0, 512), text, default=default)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """The captures and options of one command. `dissecting` are the options of the dissection that the user
    gave."""

    captures: tuple[str, ...] = ()
    format: Annotated[str, format_of(tuple(FORMATS))] = "text"
    output: Annotated[str | None, file_of("Write to this file instead of standard output.")] = None
    columns: Annotated[
        str | None,
        "Only these columns, in this order.",
        Opt(OptionGroup.OUTPUT, text("A,B"), common=True),
    ] = None
    where: Annotated[
        str | None,
        "Only rows that match this SQL condition on the table's columns.",
        Opt(OptionGroup.OUTPUT, text("EXPR"), common=True),
    ] = None
    sort: Annotated[
        str | None,
        "Order the rows by this column; absent values come last.",
        Opt(OptionGroup.OUTPUT, text("COLUMN[:desc]"), common=True),
    ] = None
    limit: Annotated[
        int | None, "At most N rows.", Opt(OptionGroup.OUTPUT, whole(), common=True)
    ] = None
    jobs: Annotated[int | None, jobs_of("1; up to 4 for captures of 256 MiB or more")] = None
    progress: Annotated[
        bool | None,
        "Show a progress bar on stderr; by default at a terminal, if the command takes long.",
        Opt(OptionGroup.OUTPUT, flag(), flags=("--progress/--no-progress",)),
    ] = None
    csv_safe: Annotated[
        bool,
        "CSV: put an apostrophe before texts that spreadsheets take for formulas (= + - @).",
        Opt(OptionGroup.OUTPUT, flag()),
    ] = False
    message: Annotated[
        str | None,
        "Show the way of one message as a ladder; the start of its session's id is enough.",
        Opt(OptionGroup.SELECTION, text("SESSION:NUMBER"), common=True),
    ] = None
    full: Annotated[
        bool, "Show long payloads whole.", Opt(OptionGroup.OUTPUT, flag(), common=True)
    ] = False
    dissecting: Mapping[str, object] = field(default_factory=dict)

    @property
    def live(self) -> bool:
        """Whether packets may still be arriving."""
        return STDIN in self.captures

    @property
    def path(self) -> str | None:
        """The output file; None for standard output."""
        return None if self.output == "-" else self.output

    @property
    def dissection(self) -> Options:
        """The options of the dissection. Raises Fault for a key log that cannot be read."""
        try:
            return Options(**self.dissecting)  # type: ignore[arg-type]  # Options checks each
        except DissectError as error:
            raise Fault(str(error)) from None

    @property
    def key_logs(self) -> tuple[str, ...]:
        """The files with TLS secrets."""
        keylog = self.dissecting.get("keylog", ())
        assert isinstance(keylog, tuple)
        return keylog

    @property
    def other_inputs(self) -> tuple[str, ...]:
        """The files and folders that the command reads beside captures."""
        return self.key_logs

    @property
    def given(self) -> list[str]:
        """The names of the options that do not have their default values."""
        default = Options()
        return changed(self) + [
            name for name, value in self.dissecting.items() if value != getattr(default, name)
        ]

    @property
    def filters(self) -> tuple[str, ...]:
        """The options that may leave out rows, as the user wrote them."""
        options = options_of(type(self))
        names = ("where", "kind", "from_time", "until_time")
        return tuple(options[name].flag(name) for name in names if name in self.given)

    def refuse(self, names: Collection[str], output: str) -> None:
        """Raises Fault if one of these options is given: it would have no effect. `output` says what the
        command prints instead of rows."""
        options = options_of(type(self))
        for name in self.given:
            if name in names:
                flag = options[name].flag(name)
                shown = f"{flag} {self.format}" if name == "format" else flag
                raise Fault(f"{shown} does not go with {output}")

    def refuse_reading(self) -> None:
        """Raises Fault for options that only captures need: `--tables` reads none."""
        reading = {*declared(Options), "jobs"} - {"from_time", "until_time"}
        self.refuse(reading, "--tables, which are not dissected again")

    @property
    def between(self) -> TimeRange:
        """The range of time, for the rows of `--tables`. Raises Fault for one that begins with the first
        packet: tables have none."""
        names = ("from_time", "until_time")
        bounds = [self.dissecting.get(name) for name in names]
        for name, bound in zip(names, bounds):
            if isinstance(bound, TimeBound) and bound.elapsed:
                flag = options_of(type(self))[name].flag(name)
                raise Fault(
                    f"{flag} does not go with --tables in seconds, which count from the first packet:"
                    " name a time, such as 2026-11-21T02:01"
                )
        return TimeRange(*(bound.ns if isinstance(bound, TimeBound) else None for bound in bounds))

    def refuse_formulas(self) -> None:
        """Raises Fault for `--csv-safe` without `--format csv`."""
        if self.format != "csv":
            self.refuse(("csv_safe",), f"--format {self.format}, which has no formulas")


@dataclass(frozen=True, slots=True, kw_only=True)
class FactOptions(CommandOptions):
    """The captures and options of a command that prints facts instead of the rows of a table."""

    format: Annotated[str, format_of(("text", "jsonl"))] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions(CommandOptions):
    """The captures and options of the command that lists sessions, shows or explains one."""

    session: Annotated[
        str | None,
        "Show one session in full; the start of its id is enough.",
        Opt(OptionGroup.SELECTION, text("ID"), common=True),
    ] = None
    explain: Annotated[
        str | None,
        "Print the decisions about one connection, NATS or not; the start of its id is enough.",
        Opt(OptionGroup.SELECTION, text("ID")),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions(CommandOptions):
    """The captures and options of the command that lists servers or draws them."""

    format: Annotated[str, format_of((*FORMATS, DOT), dot="a graph for Graphviz")] = "text"
    graph: Annotated[
        bool,
        "Show clusters, servers and links as text.",
        Opt(OptionGroup.OUTPUT, flag(), common=True),
    ] = False


TABLES_OF = Opt(
    OptionGroup.SELECTION,
    text("DIR"),
    "Read the Parquet tables in this folder instead of captures. `archive --out DIR` and `spark --out DIR`"
    " write such tables. With --from and --until, only rows of that time are read.",
    common=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlOptions(CommandOptions):
    """The captures, or the folder of tables, that a query reads, and how to show its rows."""

    tables: Annotated[str | None, TABLES_OF] = None

    @property
    def other_inputs(self) -> tuple[str, ...]:
        """Key logs, and the folder of tables."""
        return (*super(SqlOptions, self).other_inputs, *filter(None, [self.tables]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions(CommandOptions):
    """The captures, or the folder of tables, and the options of a report."""

    output: Annotated[str | None, file_of("Write the page to this file.", required=True)] = None
    jobs: Annotated[int | None, jobs_of("1")] = None
    tables: Annotated[str | None, TABLES_OF] = None


def options_of(kind: type[CommandOptions]) -> dict[str, Opt]:
    """The options that a command may have, by name: first those that only it has, at the end those of the
    dissection."""
    every = {**declared(kind), **declared(Options)}
    return {name: every[name] for name in (*own(kind), *every)}


def own(kind: type[CommandOptions]) -> tuple[str, ...]:
    """The options that only commands with options of this class have."""
    return tuple(name for name in declared(kind) if name not in declared(CommandOptions))


def command_options(kind: type[_O], values: Mapping[str, object]) -> _O:
    """The values that click read, as one value; None stands for an option that is not given. Raises Fault if
    no packet can be in the range of time."""
    given = {name: value for name, value in values.items() if value is not None}
    dissecting = {name: given.pop(name) for name in declared(Options) if name in given}
    begin, end = dissecting.get("from_time"), dissecting.get("until_time")
    assert begin is None or isinstance(begin, TimeBound)
    assert end is None or isinstance(end, TimeBound)
    try:
        check_bounds(begin, end, ("--from", "--until"))
    except ValueError as error:
        raise Fault(str(error)) from None
    return kind(dissecting=dissecting, **given)  # type: ignore[arg-type]  # read by their forms
