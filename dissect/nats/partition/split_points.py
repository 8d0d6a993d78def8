"""Cuts a capture into pieces, each of them a capture, with the same records, byte by byte.

Together the pieces have the packets of the whole, in order: a cut is made only where no later packet is
earlier than one before it, because captures are merged by time when they are read. Compressed captures are
decompressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..capture.pcapng.section import SECTION
from ..capture.reader import BLOCK
from ..capture.report import FileReport
from ..capture.sources import read_records, unpacked

# A piece may end at this many positions per piece size, but the positions are at least `_FINEST` bytes apart.
_FINENESS = 64
_FINEST = 1 << 12

_SECTION = SECTION.to_bytes(4, "big")


@dataclass(frozen=True, slots=True)
class CapturePiece:
    """The records from byte `start` to before `stop` of a capture's decompressed contents. `context`
    turns them into a capture if it is put before them."""

    start: int
    stop: int
    context: bytes


@dataclass(frozen=True, slots=True)
class _TimedPiece:
    """Part of a piece, with its smallest and largest times; None without packets. `borrows_time` is as in
    `capture.reader.Ended`."""

    piece: CapturePiece
    smallest_ns: int | None
    largest_ns: int | None
    borrows_time: bool


def pieces(path: str, size_bytes: int, report: FileReport) -> list[CapturePiece]:
    """Cuts a capture into pieces of about this size. Reads it once. Pieces are larger where packets go back
    in time. If the capture is damaged, `report` says so, and the pieces have everything before the damage.
    Raises CaptureError if the file is not a capture."""
    parts = list(_parts(path, max(size_bytes // _FINENESS, _FINEST), report))
    following = _smallest_from(parts)
    made: list[CapturePiece] = []
    latest: int | None = None
    for part, later in zip(parts, following, strict=True):
        piece = part.piece
        timed = not part.borrows_time or not latest
        large = made and piece.stop - made[-1].start > size_bytes
        if not made or (large and timed and (latest is None or later is None or latest <= later)):
            made.append(piece)
        else:
            made[-1] = CapturePiece(made[-1].start, piece.stop, made[-1].context)
        if part.largest_ns is not None:
            latest = part.largest_ns if latest is None else max(latest, part.largest_ns)
    return made


def bytes_of(path: str, made: Sequence[CapturePiece]) -> Iterator[tuple[int, bytes]]:
    """The contents of the pieces' files: pairs of a piece's number, in order, and some of its bytes."""
    with unpacked(path, FileReport(path, "")) as blocks:
        for number, piece in enumerate(made):
            blocks.fill(len(_SECTION))
            if not blocks.data.startswith(_SECTION, blocks.at):
                yield number, piece.context
            while blocks.position < piece.stop and blocks.fill(1):
                stop = min(blocks.at + BLOCK, blocks.at + piece.stop - blocks.position)
                data = blocks.data[blocks.at : stop]
                blocks.at += len(data)
                yield number, data


def _parts(path: str, step: int, report: FileReport) -> Iterator[_TimedPiece]:
    """The parts of a capture, in order, each of about `step` bytes."""
    context = b""
    with unpacked(path, report) as blocks:
        while True:
            start = blocks.position
            smallest: int | None = None
            largest: int | None = None
            blocks.put_before(context)
            reading = read_records(report.format, blocks, report, start + step)
            while True:
                try:
                    run = next(reading)
                except StopIteration as end:
                    ended = end.value
                    break
                low, high = min(run.places)[0], max(run.places)[0]
                smallest = low if smallest is None else min(smallest, low)
                largest = high if largest is None else max(largest, high)
            piece = CapturePiece(start, ended.next_record, context)
            yield _TimedPiece(piece, smallest, largest, ended.borrows_time)
            context = ended.context
            if report.fault or not blocks.fill(1):
                return


def _smallest_from(parts: Sequence[_TimedPiece]) -> list[int | None]:
    """For each part, the smallest time in it and in the parts after it."""
    smallest: list[int | None] = []
    latest: int | None = None
    for part in reversed(parts):
        if part.smallest_ns is not None:
            latest = part.smallest_ns if latest is None else min(latest, part.smallest_ns)
        smallest.append(latest)
    return smallest[::-1]
