"""`nats-dissect split`: captures -> a folder of uncompressed pieces, each a complete capture.

Exit status: 0 done; 2 if an input is not a capture, or the folder is not empty; 3 done, but a capture was cut
short or damaged, and the pieces end before the damage.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import Annotated, NamedTuple

from ...capture import CaptureReport, FileReport
from ...capture.files import capture_name, size_and_mtime
from ...errors import CaptureError, DissectError
from ...number_formats import count_text
from ...option_types import Opt, OptionGroup, byte_size
from ...output.sink import Fault, say, unwritable
from ...partition.byte_ranges import captures
from ...partition.split_points import CapturePiece, bytes_of, pieces
from ..command_options import CommandOptions, file_of

_DAMAGED = 3
_SUFFIXES = (".gz", ".zst", ".zstd", ".xz", ".bz2", ".pcapng", ".pcap", ".cap")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions(CommandOptions):
    """Captures, the folder for the pieces, and their size."""

    output: Annotated[
        str | None, file_of("A new folder for the pieces.", required=True, metavar="DIR")
    ] = None
    size: Annotated[
        int, "Approximate size of a piece.", Opt(OptionGroup.OUTPUT, byte_size(1 << 12))
    ] = (128 << 20)


class _Cut(NamedTuple):
    """A capture, its pieces, and its size and modification time before it was read."""

    report: FileReport
    pieces: list[CapturePiece]
    when: tuple[int, int]


def split(options: SplitOptions) -> None:
    """Rewrites captures as pieces of about this size in a new folder, and prints their number. The names of
    the pieces sort in the order of the packets. Exits with status 3 unless everything was read."""
    report, folder = CaptureReport(), options.output or ""
    try:
        cuts = [_cut(path, options.size) for path in captures(options.captures, report)]
    except DissectError as error:
        raise Fault(str(error)) from None
    cuts.sort(key=lambda cut: inf if cut.report.first_ns is None else cut.report.first_ns)
    _make(folder)
    number = 0
    for cut in cuts:
        number = _write(cut, folder, number)
    _say_overlap(cuts)
    report.files += [cut.report for cut in cuts]
    for file in report.damaged:
        say(f"{file.path}: {file.damage}")
    for reason in report.unreadable:
        say(reason)
    say(f"{count_text(number, 'piece')} of {count_text(len(cuts), 'file')} in {folder}")
    if report.damaged or report.unreadable:
        sys.exit(_DAMAGED)


def _cut(path: str, size_bytes: int) -> _Cut:
    when = size_and_mtime(path)
    report = FileReport(path, capture_name(path))
    return _Cut(report, pieces(path, size_bytes, report), when)


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
        if os.listdir(folder):
            raise Fault(f"{folder}: is not empty, and nothing is overwritten; name a new folder")
    except OSError as error:
        raise unwritable(folder, error) from None


def _write(cut: _Cut, folder: str, number: int) -> int:
    """Writes the pieces of a capture, numbered from `number`; returns the next number."""
    report = cut.report
    try:
        for _, parts in groupby(bytes_of(report.path, cut.pieces), key=lambda part: part[0]):
            path = os.path.join(folder, _name(report, number))
            number += 1
            with open(path, "xb") as file:
                file.writelines(data for _, data in parts)
        if size_and_mtime(report.path) != cut.when:
            remedy = "wait until it is complete, or give a copy of it"
            raise CaptureError(report.path, "the file changed while it was read", remedy)
    except DissectError as error:
        raise Fault(str(error)) from None
    except OSError as error:  # from writing: reading raises DissectError
        raise unwritable(path, error) from None
    return number


def _name(report: FileReport, number: int) -> str:
    """The name of a piece. Its number has a fixed width, so that the names sort by number."""
    name = report.capture
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    name = os.fsdecode(name.encode())  # the same bytes in every locale
    return f"{number:08}-{name}.{'pcapng' if report.format.endswith('pcapng') else 'pcap'}"


def _say_overlap(cuts: Sequence[_Cut]) -> None:
    """Prints a line if packets of several captures may have the same time. Of these, the packets of the file
    that begins first come first, and a piece may begin later than its whole capture did."""
    latest = -inf
    for report in (cut.report for cut in cuts):
        if report.first_ns is not None and report.last_ns is not None:
            if report.first_ns <= latest:
                say("captures overlap: packets of one and the same time may change places")
                return
            latest = max(latest, report.last_ns)
