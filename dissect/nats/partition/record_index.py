"""Indexes the record headers of byte ranges, and proves that byte ranges begin where records do.

A walk that begins at a true record meets only true records, so it ends exactly at the first record of the
next byte range. The first byte range of a file begins at a known position: from there on, neighbours are
compared, and a range that began at a wrong position, or with a wrong context, is walked again.
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

# Byte ranges that are walked one after the other, each from where the one before ended.
Chain = tuple[ByteRange, ...]

# After this many rounds, a file whose bytes mislead the guesses is walked in one row that grows each round.
_PARALLEL_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class RecordIndex:
    """The result of walking a byte range.

    `byte_range` begins where the first record was found. `report` is the part of the file's report that
    concerns this byte range. `smallest_ns` is the smallest time in it. `rising`: no packet is earlier than
    one before it. `ended` is where the walk ended: before the next record, or at `report.fault`.
    """

    byte_range: ByteRange
    report: FileReport
    ended: Ended
    smallest_ns: int | None = None
    rising: bool = True

    @property
    def landed(self) -> int:
        """Where the first record after the byte range begins, or where reading stopped."""
        return self.ended.landed

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
        """The largest time of its packets and of those before them in the file."""
        times = (self.report.last_ns, self.byte_range.before_ns)
        return max((time for time in times if time is not None), default=None)


def walk(byte_range: ByteRange) -> RecordIndex:
    """Walks the record headers of a byte range; finds the first record if its start is a guess. Raises
    CaptureError if the file has changed or cannot be read."""
    if byte_range.guessed:
        byte_range = _found(byte_range)
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


def walk_chain(chain: Chain) -> list[RecordIndex]:
    """Walks consecutive byte ranges, each from where the one before ended. The start of the first must
    be proven. Byte ranges after damage are left out."""
    walked: list[RecordIndex] = []
    for byte_range in chain:
        if walked:
            byte_range = _follow(walked[-1], byte_range)
        walked.append(walk(byte_range))
        if walked[-1].report.fault:
            break
    return walked


def prove(walked: Sequence[RecordIndex]) -> tuple[list[RecordIndex], list[ByteRange]]:
    """Splits the byte ranges of one file, in order, into those that are proven from the beginning on,
    with the numbers of their first packets and the largest times before them, and those that must be
    walked again. If there are none of the latter, the file is done, and byte ranges that are not proven
    lie after damage."""
    proven: list[RecordIndex] = []
    again: list[ByteRange] = []
    before: RecordIndex | None = None
    settled = True  # whether the last byte range began where it should
    for each in walked:
        byte_range = each.byte_range if before is None else _follow(before, each.byte_range)
        if byte_range.stop is not None and byte_range.start >= byte_range.stop:
            each = _nothing(byte_range)
        elif _same(byte_range, each):
            settled = True
        elif byte_range.start != each.byte_range.start:
            if settled:
                again.append(byte_range)
            settled = False
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


WalkAll = Callable[[Sequence[Chain]], Iterable[Sequence[RecordIndex]]]


def settle(
    files: Iterable[Sequence[ByteRange]], walk_all: WalkAll
) -> tuple[list[list[RecordIndex]], int]:
    """The proven byte ranges of files, and how many had to be walked again. `walk_all` walks chains, at
    the same time if it can, and in any order; it is called until everything is proven."""
    left = [list(byte_ranges) for byte_ranges in files]
    chains: list[Chain] = [(byte_range,) for byte_ranges in left for byte_range in byte_ranges]
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
    """The report that one reading of the whole file gives, from its proven byte ranges."""
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
            whole.saw(part.first_ns, part.last_ns or part.first_ns)
        for name in ("packets", "captured_bytes", "wire_bytes", "cut_packets", "comments"):
            setattr(whole, name, getattr(whole, name) + getattr(part, name))
        for name in ("linktypes", "snaplens", "blocks", "skipped"):
            getattr(whole, name).update(getattr(part, name))
        if part.fault:
            whole.break_off(*part.fault)
    whole.position = byte_range.size
    whole.finished = True
    return whole


def _found(byte_range: ByteRange) -> ByteRange:
    """The byte range from its first record on, if one is found."""
    size = 2 * guess.span(byte_range.context) + 64
    data = window(byte_range, size)
    at = guess.first_record(
        byte_range.context, data, byte_range.start + len(data) == byte_range.size
    )
    return replace(byte_range, start=byte_range.start + (at or 0), guessed=False)


def _nothing(byte_range: ByteRange) -> RecordIndex:
    """A byte range in which no record begins."""
    ended = Ended(byte_range.start, byte_range.context, 0, interfaces_in(byte_range.context))
    return RecordIndex(byte_range, byte_range.report(), ended)


def _follow(before: RecordIndex, byte_range: ByteRange) -> ByteRange:
    """The byte range as it must be after the previous one."""
    return replace(
        byte_range,
        start=before.landed,
        context=before.ended.context,
        first=before.byte_range.first + before.packets,
        before_ns=before.last_ns,
        guessed=False,
    )


def _same(byte_range: ByteRange, walked: RecordIndex) -> bool:
    """Whether it was walked as exactly this byte range."""
    was = walked.byte_range
    times = not walked.ended.leans or (was.before_ns or 0) == (byte_range.before_ns or 0)
    return (was.start, was.context) == (byte_range.start, byte_range.context) and times


def _placed(walked: RecordIndex, byte_range: ByteRange) -> RecordIndex:
    """A walk, completed by what the byte ranges before it determine: its own findings come after theirs."""
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
    """Whether a section begins in the byte range itself, after the reader's own and that of the context."""
    return walked.ended.sections > 2 or not pcapng.is_section(walked.byte_range.context)


def _join_interfaces(whole: list[InterfaceReport], part: list[InterfaceReport], at: int) -> None:
    """Adds the interfaces of a part of a file; the first of them is the file's interface number `at`."""
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
