"""Indexes the record headers of byte ranges, and proves that byte ranges begin where records do.

A walk that begins at a true record meets only true records, so it ends exactly at the first record of the
next byte range. The first byte range of a file begins at a known position. From there on, the end of each
range is compared with the beginning of the next: a range that began at a wrong position, or with a wrong
context, is walked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from ..capture import pcapng
from ..capture.pcapng.section import MOST_INTERFACES, interfaces_in
from ..capture.reader import Ended
from ..capture.report import FileReport, InterfaceReport
from . import resync as guess
from .byte_ranges import ByteRange, records, window

# Byte ranges that are walked one after the other, each from where the previous one ended.
RecordChain = tuple[ByteRange, ...]

# After this many rounds, a file whose bytes keep misleading the guesses is walked by a single chain, which
# becomes longer in each round.
_PARALLEL_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class RecordIndex:
    """The result of walking a byte range.

    `byte_range` begins where the first record was found. `report` is the part of the file's report that is
    about this byte range. `smallest_ns` is the smallest time in it. `rising` is true if no packet is earlier
    than a packet before it. `ended` is the state at the end of the walk: before the next record, or at
    `report.fault`.
    """

    byte_range: ByteRange
    report: FileReport
    ended: Ended
    smallest_ns: int | None = None
    rising: bool = True

    @property
    def next_record(self) -> int:
        """The position of the first record after the byte range, or where reading stopped."""
        return self.ended.next_record

    @property
    def packets(self) -> int:
        """The number of packets, including skipped ones."""
        return self.report.packets

    @property
    def first_ns(self) -> int | None:
        """The time of its first packet; None without packets."""
        return self.report.first_ns

    @property
    def last_ns(self) -> int | None:
        """The largest time of its packets and of the packets before them in the file."""
        times = (self.report.last_ns, self.byte_range.before_ns)
        return max((time for time in times if time is not None), default=None)


def walk(byte_range: ByteRange) -> RecordIndex:
    """Finds the first record of a byte range if its start is a guess, and walks the record headers. Raises
    CaptureError if the file has changed or cannot be read."""
    if byte_range.guessed:
        byte_range = _from_first_record(byte_range)
    if byte_range.stop is not None and byte_range.start >= byte_range.stop:
        return _nothing(byte_range)
    report = byte_range.report()
    smallest: int | None = None
    largest: int | None = None
    rising = True
    with closing(records(byte_range, report)) as reading:
        while True:
            try:
                run = next(reading)
            except StopIteration as end:
                report.last_ns = largest
                return RecordIndex(byte_range, report, end.value, smallest, rising)
            times = [place[0] for place in run.places]
            ordered = sorted(times)
            rising = rising and ordered == times and (largest is None or largest <= times[0])
            smallest = ordered[0] if smallest is None else min(smallest, ordered[0])
            largest = ordered[-1] if largest is None else max(largest, ordered[-1])


def walk_chain(chain: RecordChain) -> list[RecordIndex]:
    """Walks consecutive byte ranges, each from where the previous one ended. The start of the first must be
    proven. Byte ranges after damage are left out."""
    walked: list[RecordIndex] = []
    for byte_range in chain:
        if walked:
            byte_range = _follow(walked[-1], byte_range)
        walked.append(walk(byte_range))
        if walked[-1].report.fault:
            break
    return walked


def prove(walked: Sequence[RecordIndex]) -> tuple[list[RecordIndex], list[ByteRange]]:
    """Splits the byte ranges of one file, in order, into proven ones and those that must be walked again.
    The proven ones are consecutive from the beginning of the file, and know the number of their first packet
    and the largest time before it. If none must be walked again, the file is done: byte ranges that are not
    proven then come after damage."""
    proven: list[RecordIndex] = []
    again: list[ByteRange] = []
    before: RecordIndex | None = None
    was_right = True  # whether the previous byte range began at its first record
    for each in walked:
        byte_range = each.byte_range if before is None else _follow(before, each.byte_range)
        if byte_range.stop is not None and byte_range.start >= byte_range.stop:
            each = _nothing(byte_range)
        elif _same(byte_range, each):
            was_right = True
        elif byte_range.start != each.byte_range.start:
            if was_right:
                again.append(byte_range)
            was_right = False
            if each.report.fault:
                break
        else:
            again.append(byte_range)
        before = _placed(each, byte_range)
        if not again:
            proven.append(before)
            if each.report.fault:
                break
    return proven, again


WalkAll = Callable[[Sequence[RecordChain]], Iterable[Sequence[RecordIndex]]]


def prove_all(
    files: Iterable[Sequence[ByteRange]], walk_all: WalkAll
) -> tuple[list[list[RecordIndex]], int]:
    """The proven byte ranges of files, and the number of byte ranges that were walked again. `walk_all` walks
    chains, in any order and at the same time if it can; it is called until everything is proven."""
    left = [list(byte_ranges) for byte_ranges in files]
    chains: list[RecordChain] = [
        (byte_range,) for byte_ranges in left for byte_range in byte_ranges
    ]
    known: dict[str, dict[int, RecordIndex]] = {byte_ranges[0].path: {} for byte_ranges in left}
    done: dict[str, list[RecordIndex]] = {}
    wrong = rounds = 0
    while chains:
        for row in walk_all(chains):
            known[row[0].byte_range.path].update({each.byte_range.number: each for each in row})
        chains = []
        rounds += 1
        for byte_ranges in left:
            path = byte_ranges[0].path
            if path in done:
                continue
            proven, again = prove([each for _, each in sorted(known[path].items())])
            wrong += len(again)
            if not again:
                done[path] = proven
                del known[path]
            elif rounds <= _PARALLEL_ROUNDS:
                chains += [(byte_range,) for byte_range in again]
            else:
                number = again[0].number
                row_size = 1 << rounds
                chains.append((again[0], *byte_ranges[number + 1 : number + row_size]))
    return [done[byte_ranges[0].path] for byte_ranges in left], wrong


def joined(walked: Sequence[RecordIndex]) -> FileReport:
    """The report on a whole file, from its proven byte ranges: the same as from reading it at once."""
    byte_range = walked[0].byte_range
    whole = FileReport(
        byte_range.path, byte_range.capture, walked[0].report.format, byte_range.size
    )
    described = 0
    for each in walked:
        part = each.report
        carried = interfaces_in(each.byte_range.context)
        _join_interfaces(whole.interfaces, part.interfaces, described - carried)
        described += each.ended.described - carried
        if part.first_ns is not None:
            latest_ns = part.first_ns if part.last_ns is None else part.last_ns
            whole.saw(part.first_ns, latest_ns, part.least_ns, part.back_ns)
        for name in ("packets", "captured_bytes", "wire_bytes", "cut_packets", "comments"):
            setattr(whole, name, getattr(whole, name) + getattr(part, name))
        for name in ("linktypes", "snaplens", "blocks", "skipped"):
            getattr(whole, name).update(getattr(part, name))
        if part.fault:
            whole.break_off(*part.fault)
    whole.position = byte_range.size
    whole.finished = True
    return whole


def _from_first_record(byte_range: ByteRange) -> ByteRange:
    """The byte range from its first record on, or unchanged if none is found."""
    size = 2 * guess.span(byte_range.context) + 64
    data = window(byte_range, size)
    at = guess.first_record(
        byte_range.context, data, byte_range.start + len(data) == byte_range.size
    )
    return replace(byte_range, start=byte_range.start + (at or 0), guessed=False)


def _nothing(byte_range: ByteRange) -> RecordIndex:
    """The index of a byte range in which no record begins."""
    ended = Ended(byte_range.start, byte_range.context, 0, interfaces_in(byte_range.context))
    return RecordIndex(byte_range, byte_range.report(), ended)


def _follow(before: RecordIndex, byte_range: ByteRange) -> ByteRange:
    """The byte range as the previous one determines it."""
    return replace(
        byte_range,
        start=before.next_record,
        context=before.ended.context,
        first=before.byte_range.first + before.packets,
        before_ns=before.last_ns,
        guessed=False,
    )


def _same(byte_range: ByteRange, walked: RecordIndex) -> bool:
    """Whether `walked` is a walk over exactly this byte range."""
    was = walked.byte_range
    times = not walked.ended.borrows_time or (was.before_ns or 0) == (byte_range.before_ns or 0)
    return (was.start, was.context) == (byte_range.start, byte_range.context) and times


def _placed(walked: RecordIndex, byte_range: ByteRange) -> RecordIndex:
    """The walk, completed by what the byte ranges before it determine: packet numbers, context, time."""
    ended, report, was = walked.ended, walked.report, walked.byte_range
    if was.context != byte_range.context and not _begins_section(walked):
        added = ended.context[len(was.context) :]
        ended = replace(ended, context=byte_range.context + added)
    if report.before != byte_range.first - 1:
        report = replace(report, before=byte_range.first - 1)
        if report.fault:
            report.break_off(*report.fault)
    return replace(
        walked, byte_range=replace(byte_range, start=was.start), ended=ended, report=report
    )


def _begins_section(walked: RecordIndex) -> bool:
    """Whether a section begins in the byte range itself. The reader's count includes one that it starts with
    and one in the context."""
    return walked.ended.sections > 2 or not pcapng.is_section(walked.byte_range.context)


def _join_interfaces(whole: list[InterfaceReport], part: list[InterfaceReport], at: int) -> None:
    """Adds the interfaces of a part of a file. The first of them has number `at` in the file."""
    for number, each in enumerate(part, at):
        if number >= MOST_INTERFACES:
            return
        if number == len(whole):
            whole.append(replace(each))
            continue
        old = whole[number]
        old.packets += each.packets
        if each.packet_drops is not None:
            old.packet_drops = (old.packet_drops or 0) + each.packet_drops
        if each.interface_drops is not None:
            old.interface_drops = each.interface_drops
        if each.system_drops is not None:
            old.system_drops = each.system_drops
