"""Where output goes, and what may end it: an output that cannot be opened, is full, or is not read.

Exit status: 2 where the output or an input is unusable, 130 interrupted; a closed pipe ends quietly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from io import TextIOWrapper
from typing import TextIO

import click

from ..capture import is_input
from ..errors import DissectError
from ..records import printable
from .parquet import whole_file

INTERRUPTED = 130


class Fault(click.ClickException):
    """What is wrong with an input or output, on one line."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        """Says it."""
        say(self.message)


def say(text: str) -> None:
    """One line on stderr."""
    click.echo(f"nats-dissect: {printable(' '.join(text.split()))}", err=True)


class Sink:
    """Standard output, or the file `path`; never one of the captures. `binary`: it is nothing for a
    terminal, and useless unless it is whole."""

    def __init__(self, path: str | None, captures: tuple[str, ...], binary: bool = False) -> None:
        self._path = path
        self._captures = captures
        self._binary = binary

    @contextmanager
    def open(self) -> Iterator[TextIO]:
        """The output. Whatever ends the work inside becomes its exit status."""
        try:
            if self._path is None:
                output = _standard_output()
                if self._binary and output.isatty():
                    raise Fault("this format is nothing for a terminal; name a file with -o")
                yield output
                output.flush()
            else:
                with self._file(self._path) as output:
                    yield output
        except DissectError as error:
            raise Fault(str(error)) from None
        except BrokenPipeError:
            _hush()
            sys.exit(0)
        except OSError as error:  # reading fails with DissectError
            raise unwritable(self._path, error) from None
        except KeyboardInterrupt:
            _flush_quietly()
            sys.exit(INTERRUPTED)

    def clear(self, output: TextIO) -> None:
        """Empties the file: it kept what it had until the inputs proved to be readable."""
        if self._path is not None and os.path.isfile(self._path):
            output.truncate(0)

    def _file(self, path: str) -> AbstractContextManager[TextIO]:
        if os.path.isfile(path) and is_input(path, self._captures):
            raise Fault(f"{path}: is one of the captures, and stays as it is")
        if self._binary:
            return whole_file(path)
        return open(path, "a", encoding="utf-8", errors="backslashreplace", newline="")


def unwritable(path: str | None, error: OSError) -> Fault:
    """The fault that an output has; None is standard output, of which nothing more is tried."""
    if path is None:
        _hush()
    return Fault(f"{path or 'standard output'}: cannot be written: {error.strerror}")


def _standard_output() -> TextIO:
    if sys.stdout is None:
        raise Fault("standard output is closed")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    return sys.stdout


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
