"""The command line: `natsync COMMAND`.

Exit status: 0 done; 1 failed (no connection, refused, no responders, no reply, messages missing or dropped);
2 wrong usage; 130 interrupted. An error is one line on stderr, without a traceback or a secret.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

import click
from click.shell_completion import shell_complete

from .commands import Reporter, program
from .errors import Error, OptionError, ProtocolError

__all__ = ["main"]

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
_NAME, _COMPLETE = "natsync", "_NATSYNC_COMPLETE"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal may lack a character
    reporter = Reporter()
    if asked := os.environ.get(_COMPLETE):
        return shell_complete(program, {"obj": reporter}, _NAME, _COMPLETE, asked)
    try:
        return _run([*(sys.argv[1:] if argv is None else argv)], reporter)
    except click.exceptions.Exit as done:  # after a help text
        return done.exit_code
    except click.UsageError as error:
        text = error.format_message()
        path = error.ctx.command_path if error.ctx else _NAME
        reporter.tell(f"{text}{'' if text[-1] in '.?)' else '.'} See {path} --help")
        return USAGE
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


def _run(words: list[str], reporter: Reporter) -> int:
    """Does what `click.Command.main` does, except that it leaves interrupts and closed pipes alone."""
    with program.make_context(_NAME, words, obj=reporter) as context:
        status: int = program.invoke(context)
    if sys.stdout:
        sys.stdout.flush()
    return status


def _silence() -> None:
    """Keeps Python from complaining when it flushes standard output at exit."""
    if sys.stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
