"""Proven byte ranges of all files -> partitions of one timeline, in order. Each can be read on its own.

The turn of a record in the timeline (see merge.py) is the largest time of any record up to it in its file: a
record that goes back in time comes directly after the record before it. The records of all files are merged
in order of their turns and, if turns are equal, of their files. So where files overlap, the timeline can be
cut at any time; elsewhere a partition is one byte range.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import groupby
from math import inf

from ..capture.merge import MOST_OPEN, merge
from ..capture.pcapng.section import SECRETS_NAME
from ..capture.reader import RecordReaders
from ..capture.report import CaptureReport
from ..capture.sources import too_many
from ..types import Packets
from .byte_ranges import ByteRange, captures, cut, read_byte_range
from .record_index import RecordIndex, WalkAll, prove_all

# A time, and the position of a file among all files.
_Turn = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Partition:
    """Part of the timeline of all files, `number` from 0.

    Its `byte_ranges` are ordered by file, then by position. It has the records whose turn is at or after
    `begin_ns` and before `until_ns`; None is no bound. `opens_ns` has a time for each byte range, at which it
    must be open; None means from the beginning.
    """

    number: int
    byte_ranges: tuple[ByteRange, ...]
    begin_ns: int | None = None
    until_ns: int | None = None
    opens_ns: tuple[int | None, ...] = ()

    @property
    def bytes(self) -> int:
        """The total size of its byte ranges."""
        return sum(byte_range.bytes for byte_range in self.byte_ranges)


@dataclass(frozen=True, slots=True)
class _RangeInTurn:
    """A byte range with packets, and the turns of its first and last packet."""

    byte_range: ByteRange
    begins: _Turn
    ends: _Turn


def index_captures(
    paths: Sequence[str],
    size_bytes: int,
    report: CaptureReport,
    walk_all: WalkAll,
    max_expanded: int | None = None,
) -> tuple[list[list[RecordIndex]], int]:
    """The captures that the inputs name, each cut into proven byte ranges of about this size, and the
    number of byte ranges whose beginning was guessed wrong. `walk_all` is as for `record_index.prove_all`,
    and `max_expanded` limits the contents of compressed files (`decompress.bounded`)."""
    files = [cut(path, size_bytes, max_expanded) for path in captures(paths, report)]
    return prove_all(files, walk_all)


def partitions_of(files: Sequence[Sequence[RecordIndex]]) -> list[Partition]:
    """The partitions of files with proven byte ranges. Read one after the other, they are exactly the
    timeline. Raises CaptureError if too many captures overlap."""
    made: list[Partition] = []
    group: list[_RangeInTurn] = []
    last: _Turn | None = None
    for piece in sorted(_pieces(files), key=lambda piece: (piece.begins, piece.byte_range.number)):
        if last is not None and piece.begins >= last:
            made += _cut(group, len(made))
            group, last = [], None
        group.append(piece)
        last = max(last, piece.ends) if last else piece.ends
    if group:
        made += _cut(group, len(made))
    return made


def ranges_with_secrets(files: Sequence[Sequence[RecordIndex]]) -> tuple[ByteRange, ...]:
    """The byte ranges that have Decryption Secrets Blocks. Connections in other byte ranges may need them."""
    return tuple(
        each.byte_range for walked in files for each in walked if each.report.blocks[SECRETS_NAME]
    )


def in_order(files: Sequence[Sequence[RecordIndex]]) -> list[Sequence[RecordIndex]]:
    """Files in order of the times of their first packets, which is the order of the timeline."""
    return sorted(files, key=_first)


def read_partition(
    partition: Partition, report: CaptureReport, readers: RecordReaders | None = None
) -> Generator[Packets, None, None]:
    """The packets of a partition, in order. `report` lists each byte range as a separate file, with all
    records that were read, including those around the partition. Records are read with `readers`, if there
    are any. Raises CaptureError if a file has changed."""
    if len(partition.byte_ranges) == 1:
        yield from _window(partition, partition.byte_ranges, report, readers)
        return
    # `merge` opens sources by these times, in order. So a file is opened no later than the files after it.
    rows = [
        (opens, [byte_range for byte_range, _ in row])
        for opens, row in (
            (-inf if row[0][1] is None else row[0][1], row) for row in _by_file(partition)
        )
    ]
    sources = []
    earliest = inf
    for opens, byte_ranges in reversed(rows):
        earliest = min(earliest, opens)
        sources.append((earliest, partial(_window, partition, byte_ranges, report, readers)))
    yield from merge(sources[::-1], too_many(partition.byte_ranges[0].path))


def _by_file(partition: Partition) -> list[list[tuple[ByteRange, int | None]]]:
    opens = partition.opens_ns or (None,) * len(partition.byte_ranges)
    pairs = zip(partition.byte_ranges, opens, strict=True)
    return [list(row) for _, row in groupby(pairs, key=lambda pair: pair[0].path)]


def _first(walked: Iterable[RecordIndex]) -> float:
    """The time of the first packet of a file. Later packets may be earlier."""
    return next((each.first_ns for each in walked if each.first_ns is not None), inf)


def _pieces(files: Sequence[Sequence[RecordIndex]]) -> list[_RangeInTurn]:
    return [
        _RangeInTurn(each.byte_range, (_begins_ns(each), place), (each.last_ns, place))
        for place, walked in enumerate(in_order(files))
        for each in walked
        if each.first_ns is not None and each.last_ns is not None
    ]


def _begins_ns(walked: RecordIndex) -> int:
    """The turn of its first packet."""
    before_ns, first_ns = walked.byte_range.before_ns, walked.first_ns or 0
    return first_ns if before_ns is None else max(before_ns, first_ns)


def _cut(group: list[_RangeInTurn], number: int) -> list[Partition]:
    """The partitions of pieces that overlap. Cuts are made only where a piece begins, so that in each
    partition about as many bytes begin as the largest piece has."""
    if len(group) == 1:
        return [Partition(number, (group[0].byte_range,))]
    _check_open(group)
    largest = max(piece.byte_range.bytes for piece in group)
    cuts: list[int] = []
    begin_ns, size = group[0].begins[0], 0
    for piece in group:
        if size >= largest and piece.begins[0] > begin_ns:
            begin_ns, size = piece.begins[0], 0
            cuts.append(begin_ns)
        size += piece.byte_range.bytes
    bounds = zip([None, *cuts], [*cuts, None], strict=True)
    return [
        _within(group, number + count, begin_ns, until_ns)
        for count, (begin_ns, until_ns) in enumerate(bounds)
    ]


def _within(
    group: list[_RangeInTurn], number: int, begin: int | None, until: int | None
) -> Partition:
    """The partition of the pieces that have records in a time range."""
    inside = sorted(
        (
            piece
            for piece in group
            if (begin is None or piece.ends[0] >= begin)
            and (until is None or piece.begins[0] < until)
        ),
        key=lambda piece: (piece.begins[1], piece.byte_range.number),
    )
    opens = (
        None if begin is not None and piece.begins[0] < begin else piece.begins[0]
        for piece in inside
    )
    byte_ranges = tuple(piece.byte_range for piece in inside)
    return Partition(number, byte_ranges, begin, until, tuple(opens))


def _check_open(group: list[_RangeInTurn]) -> None:
    """Raises CaptureError if so many files overlap that they cannot be open at the same time."""
    ends: list[_Turn] = []
    for piece in group:
        while ends and ends[0] <= piece.begins:
            heappop(ends)
        heappush(ends, piece.ends)
        if len(ends) > MOST_OPEN:
            raise too_many(group[0].byte_range.path)


def _window(
    partition: Partition,
    byte_ranges: Sequence[ByteRange],
    report: CaptureReport,
    readers: RecordReaders | None,
) -> Generator[Packets, None, None]:
    """The packets of one file that belong to a partition."""
    begin = -inf if partition.begin_ns is None else partition.begin_ns
    until = inf if partition.until_ns is None else partition.until_ns
    for byte_range in byte_ranges:
        turn = -inf if byte_range.before_ns is None else byte_range.before_ns
        report.files.append(byte_range.report())
        with closing(read_byte_range(byte_range, report.files[-1], readers=readers)) as runs:
            if partition.begin_ns is None and partition.until_ns is None:
                yield from runs
                continue
            for run in runs:
                latest = max(turn, max(run.places)[0])
                if turn >= begin and latest < until:
                    yield run
                elif latest >= begin:
                    start, stop = _reached(run, turn, begin), _reached(run, turn, until)
                    if start < stop:
                        places = run.places[start:stop]
                        yield replace(run, first=run.first + start, places=places)
                    if stop < len(run.places):
                        return
                turn = latest


def _reached(run: Packets, turn: float, bound: float) -> int:
    """The number of packets of a run before the first whose turn reaches a bound."""
    if turn >= bound:
        return 0
    for count, place in enumerate(run.places):
        if place[0] >= bound:
            return count
    return len(run.places)
