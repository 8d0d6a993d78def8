"""`nats-dissect`: arguments, exit statuses and the choice of output. Nothing else happens here.

Exit status: 0 done; 2 wrong usage, or an input that is no capture; 3 done, but a capture was cut short or
damaged; 130 interrupted. A closed pipe ends quietly. What is wrong is said on stderr, a line each.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from importlib import metadata
from io import TextIOWrapper
from itertools import chain, islice
from typing import ContextManager, TextIO, TypeVar

import click

from natsync.protocol import Kind

from .capture import CaptureReport, is_input
from .errors import CaptureError
from .framing import Payload
from .options import Options
from .pipeline import frames, sessions
from .records import Record, SessionRecord, printable
from .reports import FrameLines, SessionTable, story_text, totals
from .story import session_story
from .writers import CsvWriter, FieldsWriter, JsonLinesWriter, Writer, chosen_columns

_DAMAGED, _INTERRUPTED = 3, 130

_F = TypeVar("_F", bound=Callable[..., None])


class _Fault(click.ClickException):
    """What is wrong with an input or output, on one line."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        _say(self.message)


def _hints(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[int, Kind]:
    """`N=KIND`, as often as it was given."""
    kinds = {item.value: item for item in Kind}
    hints = {}
    for value in values:
        port, _, kind = value.partition("=")
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536 and kind in kinds):
            raise click.BadParameter(f"{value!r} is no port=kind; kinds are {', '.join(kinds)}")
        hints[int(port)] = kinds[kind]
    return hints


_CAPTURES = click.argument("captures", nargs=-1, required=True, metavar="CAPTURE...")
_OPTIONS = (
    click.option("--format", "form", type=click.Choice(["text", "jsonl", "csv"]), default="text"),
    click.option("-o", "--output", metavar="FILE", help="Write there instead of standard output."),
    click.option("--columns", metavar="A,B", help="Only these columns, in this order."),
    click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N rows."),
    click.option(
        "--port",
        "hints",
        metavar="N=KIND",
        multiple=True,
        callback=_hints,
        help="What a port surely carries; can be given several times.",
    ),
    click.option("--no-redact", is_flag=True, help="Show passwords, tokens and signatures."),
)


def _with_options(command: _F) -> _F:
    """The options of every command that prints rows."""
    for option in (_CAPTURES, *reversed(_OPTIONS)):
        command = option(command)
    return command


def _version() -> str:
    try:
        return metadata.version("natsync")
    except metadata.PackageNotFoundError:  # run from a checkout
        return "unknown"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="nats-dissect")
def cli() -> None:
    """Tell what NATS clients and servers said to each other, from packet captures.

    A CAPTURE is a pcap or pcapng file, a folder, a pattern, or - for standard input; several are one
    timeline.
    """


@cli.command("frames")
@_with_options
@click.option(
    "--payload",
    type=click.Choice([item.value for item in Payload]),
    default="none",
    help="What to show of payloads.",
)
def frames_command(captures: tuple[str, ...], payload: str, **options: object) -> None:
    """One row a protocol operation, in time order."""
    run = _Run("frames", captures, options)
    options_ = Options(run.hints, Payload(payload), run.redact)
    told = frames(captures, options_, run.report, run.live)
    with closing(told):
        run.print(told)


@cli.command("sessions")
@_with_options
@click.option(
    "--session", metavar="ID", help="Only this one, in full: the start of its id is enough."
)
def sessions_command(captures: tuple[str, ...], session: str | None, **options: object) -> None:
    """One row a NATS connection."""
    run = _Run("sessions", captures, options)
    if session is not None and run.is_text:
        run.tell(session)
        return
    told = sessions(captures, Options(run.hints, redact=run.redact), run.report, run.live)
    with closing(told):
        rows = (row for row in told if row.session.startswith(session or ""))
        run.print(rows, session)


class _Run:
    """One command: its options, and its way from rows to output and exit status."""

    def __init__(self, table: str, captures: tuple[str, ...], options: dict[str, object]) -> None:
        self.report = CaptureReport()
        self.live = "-" in captures
        self._captures = captures
        self.redact = not options["no_redact"]
        hints = options["hints"]
        assert isinstance(hints, dict)
        self.hints: dict[int, Kind] = hints
        self._table = table
        self._format = str(options["form"])
        self._path = options["output"] if options["output"] != "-" else None
        self._limit = options["limit"]
        self._chosen = options["columns"]
        try:
            names = None if self._chosen is None else str(self._chosen)
            self._columns = chosen_columns(table, names)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="'--columns'") from None

    @property
    def is_text(self) -> bool:
        """Whether a person reads it, and did not choose columns."""
        return self._format == "text" and self._chosen is None

    def print(self, rows: Iterator[Record], session: str | None = None) -> None:
        """Prints the rows, then what there is to say about the inputs, and exits. With `session`, no row
        is a fault."""
        count = messages = 0
        with self._ending(), self._open() as output:
            first = [*islice(rows, 1)]
            self._clear(output)
            writer = self._writer(output)
            for row in chain(first, rows) if self._limit != 0 else ():
                writer.write(row)
                if self.live:
                    output.flush()
                count += 1
                if isinstance(row, SessionRecord):
                    messages += row.messages_originator + row.messages_responder
                if count == self._limit:
                    break
            writer.close()
            output.flush()
        if session is not None and not count and self._limit != 0:
            raise _no_session(session)
        self._conclude(count, messages)

    def tell(self, session: str) -> None:
        """Prints one session in full."""
        with self._ending(), self._open() as output:
            story = session_story(
                self._captures, session, Options(self.hints, redact=self.redact), self.report
            )
            if story is None:
                raise _no_session(session)
            self._clear(output)
            output.write(story_text(*story))
            output.flush()
        self._conclude(1, 0, silent=True)

    def _writer(self, output: TextIO) -> Writer:
        if self._format == "jsonl":
            return JsonLinesWriter(output, self._columns)
        if self._format == "csv":
            return CsvWriter(output, self._columns)
        if self._chosen is not None:
            return FieldsWriter(output, self._columns)
        return SessionTable(output) if self._table == "sessions" else FrameLines(output)

    def _open(self) -> ContextManager[TextIO]:
        """The output. A file keeps what it has until the inputs proved to be readable."""
        if self._path is None:
            if sys.stdout is None:
                raise _Fault("standard output is closed")
            if isinstance(sys.stdout, TextIOWrapper):
                sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
            return nullcontext(sys.stdout)
        path = str(self._path)
        if os.path.isfile(path) and is_input(path, self._captures):
            raise _Fault(f"{path}: is one of the captures, and stays as it is")
        return open(path, "a", encoding="utf-8", errors="backslashreplace", newline="")

    def _clear(self, output: TextIO) -> None:
        if self._path is not None and os.path.isfile(str(self._path)):
            output.truncate(0)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Turns what may end a command early into its exit status."""
        try:
            yield
        except CaptureError as error:
            raise _Fault(str(error)) from None
        except BrokenPipeError:
            _hush()
            sys.exit(0)
        except OSError as error:  # reading fails with CaptureError
            if self._path is None:
                _hush()
            name = self._path or "standard output"
            raise _Fault(f"{name}: cannot be written: {error.strerror}") from None
        except KeyboardInterrupt:
            _flush_quietly()
            sys.exit(_INTERRUPTED)

    def _conclude(self, count: int, messages: int, silent: bool = False) -> None:
        for file in self.report.damaged:
            _say(f"{file.path}: {file.damage}")
        for reason in self.report.unreadable:
            _say(reason)
        stopped = count == self._limit
        if not silent and not stopped and (self._format == "text" or not count):
            _say(totals(self._table, count, messages, self.report))
        if self.report.damaged or self.report.unreadable:
            sys.exit(_DAMAGED)


def _no_session(session: str) -> _Fault:
    return _Fault(f"no session {session} in the captures; `sessions` lists them")


def _say(text: str) -> None:
    """One line on stderr."""
    click.echo(f"nats-dissect: {printable(' '.join(text.split()))}", err=True)


def _hush() -> None:
    """Nobody reads standard output any more; so that the interpreter's last flush does not complain."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        pass  # no real standard output: nothing to flush to it


def _flush_quietly() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _hush()


def main() -> None:
    """The console script."""
    try:
        cli(prog_name="nats-dissect")
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
