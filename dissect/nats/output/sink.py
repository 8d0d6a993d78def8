"""Where output goes: standard output or a file, as a sink with three steps.

`begin` checks and opens the output without changing its content; `writer` makes a format's writer on it, once
the inputs have proved to be readable; `publish` makes everything that was written visible. If the work
fails, `discard` keeps or restores the old content as far as possible.

The sink of a Spark job (`spark.sink`) has the same steps, but is another protocol: here one process writes
rows of one table to one open stream, and has to close it whatever happens. There many tasks on other machines
write files of several tables, tasks fail and run twice, and `publish` gets the names of the files that count.

Exit status: 2 if the output or an input is unusable, 130 if interrupted; a closed pipe ends quietly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Protocol, TextIO, TypeVar

import click

from ..capture import is_input
from ..errors import DissectError
from ..schema.records import printable

INTERRUPTED = 130

# What is read in the folders of tables and of rules. Other files there are no inputs, such as a report.
_READ_IN_FOLDERS = (".parquet", ".yml", ".yaml")

_W = TypeVar("_W")


class Fault(click.ClickException):
    """An input or output that cannot be used, explained on one line."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        """Prints the fault on stderr."""
        say(self.message)


def say(text: str) -> None:
    """Prints one line on stderr, if it has a reader; the exit status does not depend on that."""
    with suppress(BrokenPipeError):
        click.echo(f"nats-dissect: {printable(' '.join(text.split()))}", err=True)


class Sink(Protocol):
    """An output. Messages call it `name`."""

    name: str

    def begin(self) -> TextIO:
        """Opens the output and keeps its content. Raises Fault or OSError."""

    def writer(self, make: Callable[[TextIO], _W]) -> _W:
        """Empties the output, and returns the writer that `make` makes on it."""

    def publish(self) -> None:
        """Makes the output visible under its name. Called when everything was written."""

    def discard(self) -> None:
        """Closes the output. Called when the work failed."""


class StandardOutput:
    """Standard output. A `binary` format is not written to a terminal."""

    name = "standard output"

    def __init__(self, captures: Sequence[str], binary: bool) -> None:
        self._captures = captures
        self._binary = binary

    def begin(self) -> TextIO:
        """Standard output, in UTF-8."""
        if sys.stdout is None:
            raise Fault("standard output is closed")
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
            if (descriptor := _descriptor(sys.stdout)) is not None:
                _refuse_input(self.name, descriptor, self._captures)
        if self._binary and sys.stdout.isatty():
            raise Fault("this format is nothing for a terminal; name a file with -o")
        return sys.stdout

    def writer(self, make: Callable[[TextIO], _W]) -> _W:
        """A writer on it."""
        return make(sys.stdout)

    def publish(self) -> None:
        """Flushes it."""
        sys.stdout.flush()

    def discard(self) -> None:
        """Does nothing: what was printed cannot be taken back."""


class TextFile:
    """A file of lines, which can be read while it grows. It keeps its old content until `writer`."""

    def __init__(self, path: str, captures: Sequence[str]) -> None:
        self.name = path
        self._captures = captures
        self._output: TextIO
        self._is_new = False

    def begin(self) -> TextIO:
        """The file, not truncated yet."""
        if os.path.exists(self.name):
            _refuse_input(self.name, self.name, self._captures)
        self._is_new = not os.path.exists(self.name)
        self._output = open(self.name, "a", encoding="utf-8", errors="backslashreplace", newline="")
        return self._output

    def writer(self, make: Callable[[TextIO], _W]) -> _W:
        """A writer on the emptied file."""
        if os.path.isfile(self.name):
            self._output.truncate(0)
        return make(self._output)

    def publish(self) -> None:
        """Closes the file."""
        self._output.close()

    def discard(self) -> None:
        """Closes the file with its content; removes a new file that is empty."""
        self._output.close()
        if self._is_new and os.path.getsize(self.name) == 0:
            os.unlink(self.name)


class WholeFile:
    """A file that is useless unless it is complete. It gets its name in `publish`; until then, an old file of
    that name stays. Special files, such as /dev/stdout, are written directly. Bytes go to `buffer`.
    """

    def __init__(self, path: str, captures: Sequence[str]) -> None:
        self.name = path
        self._captures = captures
        self._direct = os.path.exists(path) and not os.path.isfile(path)
        self._path = path if self._direct else os.path.realpath(path)
        self._part = f"{self._path}.{os.getpid()}.part"
        self._output: TextIO

    def begin(self) -> TextIO:
        """Opens a temporary file in the same folder."""
        if self._direct:
            self._output = open(self._path, "w", encoding="utf-8")
            return self._output
        if os.path.exists(self._path):
            _refuse_input(self.name, self._path, self._captures)
        self._output = open(self._part, "x", encoding="utf-8")
        return self._output

    def writer(self, make: Callable[[TextIO], _W]) -> _W:
        """A writer on the temporary file."""
        return make(self._output)

    def publish(self) -> None:
        """Gives the file its name."""
        try:
            self._output.close()
            if not self._direct:
                os.replace(self._part, self._path)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Removes the temporary file."""
        try:
            self._output.close()
        finally:
            if not self._direct:
                os.unlink(self._part)


def sink_of(
    path: str | None, captures: Sequence[str], binary: bool = False, others: Sequence[str] = ()
) -> Sink:
    """The sink for an output path; None is standard output. The captures are never written over. Raises Fault
    for an output that is one of `others`, the files that are read beside captures, or that would be read in
    one of them that is a folder."""
    if path is None:
        return StandardOutput(captures, binary)
    if os.path.isfile(path) and any(_contains(other, path) for other in others):
        raise Fault(f"{path}: is an input, and stays as it is")
    for other in others:
        if path.endswith(_READ_IN_FOLDERS) and os.path.isdir(other) and _is_below(other, path):
            raise Fault(f"{path}: would be read as an input: name an output outside {other}")
    return WholeFile(path, captures) if binary else TextFile(path, captures)


@contextmanager
def writing(sink: Sink) -> Iterator[TextIO]:
    """The opened output, which is published at the end of the block. An exception that ends the block becomes
    the exit status."""
    try:
        output = sink.begin()
        try:
            yield output
        except BaseException:
            sink.discard()
            raise
        sink.publish()
    except DissectError as error:
        raise Fault(str(error)) from None
    except BrokenPipeError:
        silence_output()
        sys.exit(0)
    except OSError as error:  # reading fails with DissectError
        raise unwritable(sink.name, error) from None
    except KeyboardInterrupt:
        _flush_quietly()
        sys.exit(INTERRUPTED)


def unwritable(name: str, error: OSError) -> Fault:
    """The fault of an output. Nothing more is written to standard output."""
    if name == StandardOutput.name:
        silence_output()
    return Fault(f"{name}: cannot be written: {error.strerror}")


def _refuse_input(name: str, output: str | int, captures: Sequence[str]) -> None:
    if is_input(output, captures):
        raise Fault(f"{name}: is one of the captures, and stays as it is")


def _contains(input_path: str, output: str) -> bool:
    """Whether an existing output is this input, or read in it if it is a folder, even by another name."""
    files = [input_path]
    if os.path.isdir(input_path):
        files = [
            os.path.join(top, name)
            for top, _, names in os.walk(input_path)
            for name in names
            if name.endswith(_READ_IN_FOLDERS)
        ]
    return any(os.path.exists(file) and os.path.samefile(file, output) for file in files)


def _is_below(folder: str, output: str) -> bool:
    return Path(os.path.realpath(output)).is_relative_to(os.path.realpath(folder))


def _descriptor(output: TextIO) -> int | None:
    """The file descriptor of an output that has one."""
    try:
        return output.fileno()
    except OSError:
        return None


def silence_output() -> None:
    """Redirects standard output, whose reader has gone, to the null device, so that the interpreter's last
    flush does not fail."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(null, sys.stdout.fileno())
        finally:
            os.close(null)
    except (OSError, ValueError):
        pass  # no real standard output: nothing to flush to it


def _flush_quietly() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        silence_output()
