"""The command line: `natsync COMMAND`.

Exit status: 0 done; 1 failed (no connection, refused, no responders, no reply, messages missing or dropped);
2 wrong usage; 130 interrupted. An error is one line on stderr, without a traceback or a secret.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence

from . import __version__
from .client import Client
from .commands import Reporter, make_parser, opened
from .errors import Error, OptionError, ProtocolError

__all__ = ["main"]

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status; wrong usage raises SystemExit(2)."""
    args = make_parser(__version__).parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal may lack a character
    reporter = Reporter()
    try:
        return _run(args, reporter)
    except (OptionError, ProtocolError) as error:  # ProtocolError: an invalid subject
        reporter.error(error)
        return USAGE
    except Error as error:
        reporter.error(error)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of standard output has gone
        _silence()
        return DONE
    except OSError as error:
        if not error.filename:  # an error of standard input or output, such as a full disk
            _silence()
        reporter.error(error)
        return FAILED


def _run(args: argparse.Namespace, reporter: Reporter) -> int:
    command: Callable[[Client, argparse.Namespace, Reporter], int] = args.command
    with reporter.heeding_interrupts(), opened(args, reporter) as nc:
        status = command(nc, args, reporter)
    if sys.stdout:
        sys.stdout.flush()
    return status or (FAILED if reporter.refused else DONE)


def _silence() -> None:
    """Keeps Python from complaining when it flushes standard output at exit."""
    if sys.stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
