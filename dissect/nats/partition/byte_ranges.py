"""A capture file, cut into byte ranges that can be read each on its own: `ByteRange`s.

`cut` says where the ranges are; where the first record of each begins is found out and proven by walk.py.
Compressed files cannot be read from their middle: they are one byte range.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

from ..capture.files import capture_name, opened, size_and_mtime
from ..capture.pcapng_section import interfaces_in
from ..capture.reader import NOWHERE, Ended, Pieces, Reading
from ..capture.report import CaptureReport, FileReport
from ..capture.sources import STDIN, files_of, is_packed, read_file, read_part
from ..errors import CaptureError
from ..types import Packets

# Of an byte range: there are few such files, and below it the guesses cost more than they bring.
SMALLEST = 4096

# What a file's head is looked at for its format, and for what its packets need to be understood.
_HEAD = 1 << 17
_GROWING = "wait until it is complete, or read a copy of it"


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The records of one capture file that begin from byte `start` to before byte `stop`.

    `path` is how the file is reached and `capture` what rows call it; `stop` None is its end. `number`
    counts the byte ranges of a file from 0. `first` is the number of the first packet in its file and
    `before_ns` the largest time before it, `context` what makes a capture of the byte range's bytes if it
    is put before them. While `guessed`, no record need begin at `start`, and these three are not known.
    `size` and `changed_ns` are the file's when it was cut. `packed`: the file is compressed, and this is
    all of it.
    """

    path: str
    capture: str
    start: int
    stop: int | None
    context: bytes
    size: int
    changed_ns: int
    number: int = 0
    first: int = 1
    before_ns: int | None = None
    guessed: bool = False
    packed: bool = False

    @property
    def bytes(self) -> int:
        """How much of the file it is."""
        return max((self.size if self.stop is None else self.stop) - self.start, 0)

    def report(self) -> FileReport:
        """What to hand to `read_byte_range`."""
        return FileReport(self.path, self.capture, size=self.size)


def captures(paths: Sequence[str], report: CaptureReport) -> list[str]:
    """The capture files that the inputs stand for, each once: files, folders, patterns, and URIs of these.
    CaptureError where there is none, and for standard input: it cannot be read in parts."""
    if STDIN in paths:
        raise CaptureError(STDIN, "standard input cannot be cut", "write it to a file first")
    return files_of(paths, report)


def cut(path: str, size_bytes: int) -> list[ByteRange]:
    """A capture file in byte ranges of about this size; all but the first are guesses. CaptureError if the
    file cannot be read, or is no capture."""
    size, changed_ns = size_and_mtime(path)
    name = capture_name(path)
    with opened(path) as file:
        packed = is_packed(_read(file, 8))
    if packed:
        with closing(read_file(path, FileReport(path, name))) as packets:
            next(packets, None)
        return [ByteRange(path, name, 0, None, b"", size, changed_ns, packed=True)]
    step = max(size_bytes, SMALLEST) & ~3  # pcapng's blocks are aligned
    context = _context(path, min(step, _HEAD))
    starts = range(0, max(size, 1), step)
    return [
        ByteRange(
            path,
            name,
            start,
            start + step if start + step < size else None,
            context if start else b"",
            size,
            changed_ns,
            number,
            guessed=start > 0,
        )
        for number, start in enumerate(starts)
    ]


def read_byte_range(byte_range: ByteRange, report: FileReport) -> Generator[Packets, None, None]:
    """The packets of an byte range, as reading the whole file gives them. CaptureError if the file is not
    what it was when it was cut."""
    report.before = byte_range.first - 1
    yield from records(byte_range, report)
    report.finished = True


def records(byte_range: ByteRange, report: FileReport) -> Reading:
    """`read_byte_range`, which also says where it ended."""
    report.last_ns = byte_range.before_ns
    stop = NOWHERE if byte_range.stop is None else byte_range.stop
    check_unchanged(byte_range)
    if byte_range.start >= stop:
        return Ended(byte_range.start, byte_range.context, 0, interfaces_in(byte_range.context))
    if byte_range.start:
        reading = read_part(byte_range.path, report, byte_range.context, byte_range.start, stop)
    else:
        reading = read_file(byte_range.path, report, stop)
    with closing(reading):
        ended = yield from reading
    check_unchanged(byte_range)
    return ended


def check_unchanged(byte_range: ByteRange) -> None:
    """CaptureError if the file is not what it was when it was cut."""
    if size_and_mtime(byte_range.path) != (byte_range.size, byte_range.changed_ns):
        raise CaptureError(byte_range.path, "the file changed while it was read", _GROWING)


def window(byte_range: ByteRange, size: int) -> bytes:
    """So many bytes of the file from the byte range's start on, or all that there are."""
    with opened(byte_range.path, byte_range.start) as file:
        return _read(file, size)


def _read(file: Pieces, size: int) -> bytes:
    parts = []
    while size > 0 and (piece := file.read1(size)):
        parts.append(piece)
        size -= len(piece)
    return b"".join(parts)


def _context(path: str, stop: int) -> bytes:
    """What the file says before byte `stop`, without its packets."""
    reading = read_file(path, FileReport(path, ""), stop)
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return bytes(end.value.context)
