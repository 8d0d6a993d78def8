"""Decides how many processes share the work of a command.

Without `--jobs`, one process reads a small capture, and several read a large one. Several processes take more
CPU time than one: each takes some tenths of a second to start and reads every packet, and another process
puts the rows in order. With the kernel (see `dissect.nats.kernel`), the start takes more of the time, so only
captures of gigabytes are shared; frames are not, which one process makes faster.
"""

from __future__ import annotations

import os

from ..capture import CaptureReport
from ..capture.sources import files_of, names_of
from ..errors import DissectError
from ..kernel.load import LOADED_AFTER, lack, serves
from ..output.sink import say
from ..output.writer import OutputFormat
from ..parallel.pool import cores
from ..tables import TABLES
from .command_options import CommandOptions

# Two processes take as long as one for a capture of about 60 MB, and 0.67 to 0.87 times as long for captures
# of 560 and 730 MB, for frames to Parquet and for sessions (two cores, CPython 3.11).
LARGE_BYTES = 256 << 20
# With the kernel, two processes take as long as one for 560 MB, 0.74 times as long for 2.2 GB, and 0.57 to
# 0.75 times as long for 5.6 GB (sessions, two cores).
LARGE_WITH_KERNEL = 1 << 30
_WORTH_SAYING = 64 << 20
# Each process reads every packet, which is a tenth of all work, so more processes gain little.
USUAL_PROCESSES = 4
_AS_FAST = 2  # processes without the kernel make rows of frames as fast as one with it; columns, they do not


def processes(options: CommandOptions) -> int:
    """The number of processes that `--jobs` asks for; 1 without it, and for standard input."""
    jobs = 1 if options.jobs is None else options.jobs or cores()
    if jobs > 1 and options.live:
        say("packets from standard input are read by one process: --jobs does nothing")
        return 1
    return jobs


def processes_for_rows(table: str, form: OutputFormat, options: CommandOptions) -> int:
    """The number of processes for the rows of a table. By default, several processes share large captures if
    that is faster."""
    jobs = cores() if not options.jobs else options.jobs
    if _has_kernel(table, options):
        if table == "frames":
            is_faster = jobs > _AS_FAST and form.frames is None
        else:
            is_faster = _are_large(options.captures, LARGE_WITH_KERNEL)
        if not is_faster:
            return 1
    if options.jobs is not None:
        return processes(options)
    layer = TABLES[table].layer
    is_across = layer is not None and layer.across
    if is_across or options.dissection.separate or options.limit is not None:
        return 1
    return min(cores(), USUAL_PROCESSES) if _are_large(options.captures, LARGE_BYTES) else 1


def _has_kernel(table: str, options: CommandOptions) -> bool:
    """Whether the kernel makes the rows. If only numba is missing, says so."""
    if not serves([table], options.dissection) or not _are_large(options.captures, LOADED_AFTER):
        return False
    why = lack()
    if why and _are_large(options.captures, _WORTH_SAYING):
        say(f"large captures take several times as long: {why}")
    return not why


def _are_large(captures: tuple[str, ...], least: int) -> bool:
    """Whether these are regular files (others may not be readable twice) with at least `least` bytes in all.
    Errors are ignored here, because reading the captures reports them."""
    try:
        # Cheap check first: it does not open the files of a folder to see whether they are captures.
        if _bytes_of(names_of(captures)) < least:
            return False
        return _bytes_of(files_of(captures, CaptureReport())) >= least
    except (DissectError, OSError):
        return False


def _bytes_of(files: list[str]) -> int:
    """The size of all files; 0 if one of them is not a regular file."""
    return sum(map(os.path.getsize, files)) if all(map(os.path.isfile, files)) else 0
