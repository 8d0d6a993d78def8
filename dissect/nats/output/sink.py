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
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Literal, Protocol, TextIO, TypeVar

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


class OutputFile:
    """A file, which gets its name in `publish`; until then, an old file of that name stays, also if the
    process is killed. Lines can be read in the temporary file while it grows; bytes go to `buffer`.

    An output is written directly if it is no regular file, such as a pipe; if it names an open descriptor,
    such as /dev/stdout; or if it exists in a folder where no file can be made.
    """

    def __init__(self, path: str, captures: Sequence[str]) -> None:
        self.name = path
        self._captures = captures
        is_regular = os.path.isfile(path)
        self._is_special = os.path.exists(path) and not is_regular or _is_descriptor(path)
        self._path = path if self._is_special else os.path.realpath(path)
        self._is_old = is_regular and not self._is_special
        closed = self._is_old and not os.access(os.path.dirname(self._path), os.W_OK)
        self._direct = self._is_special or closed
        self._part = self._path if self._direct else f"{self._path}.{os.getpid()}.part"
        self._output: TextIO

    def begin(self) -> TextIO:
        """Opens a temporary file in the same folder, or the output itself, not truncated yet."""
        if os.path.exists(self.name):
            _refuse_input(self.name, self.name, self._captures)
        mode: Literal["a", "x"] = "a" if self._direct else "x"
        self._output = open(
            self._part, mode, encoding="utf-8", errors="backslashreplace", newline=""
        )
        return self._output

    def writer(self, make: Callable[[TextIO], _W]) -> _W:
        """A writer on the empty file."""
        if self._direct and not self._is_special:
            self._output.truncate(0)
        return make(self._output)

    def publish(self) -> None:
        """Gives the file its name, and the mode of the old one."""
        try:
            self._output.close()
            if not self._direct:
                if self._is_old:
                    with suppress(OSError):
                        shutil.copymode(self._path, self._part)
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
    return OutputFile(path, captures)


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


def _is_descriptor(path: str) -> bool:
    """Whether a path names an open descriptor: /dev/stdout, /dev/fd/3, /proc/self/fd/3. It may be a regular
    file, but which one is decided by whoever opened it."""
    folder = os.path.realpath(os.path.dirname(path))
    return folder == "/dev" or folder.startswith(("/dev/", "/proc/")) and folder.endswith("/fd")


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
