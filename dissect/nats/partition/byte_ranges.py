"""Cuts a capture file into byte ranges that can be read independently.

`cut` guesses where ranges begin; `record_index` finds the first record of each range and proves it.
Compressed files cannot be read from the middle: each is one byte range.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

from ..capture.files import capture_name, opened, size_and_mtime
from ..capture.pcapng.section import interfaces_in
from ..capture.reader import NOWHERE, Ended, Pieces, Reading, RecordReaders
from ..capture.report import CaptureReport, FileReport
from ..capture.sources import STDIN, files_of, is_packed, read_file, read_part
from ..errors import CaptureError
from ..secrets.key_log import KeyLog
from ..types import Packets

# The smallest size of a byte range in bytes. It limits the number of guesses in a file: finding the start of
# a smaller range would take longer than reading it.
SMALLEST = 4096

# The bytes at the beginning of a file that are read to find its format and the context of its packets.
_HEAD = 1 << 17
_GROWING = "wait until it is complete, or read a copy of it"


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The records of one capture file that begin at or after byte `start` and before byte `stop`.

    `path` is the file and `capture` its name in rows; a `stop` of None is the end of the file. `number`
    counts the byte ranges of a file from 0. `first` is the number of the first packet in its file,
    `before_ns` the largest time before it, and `context` the bytes that turn the range into a capture if
    they are put before it. While the range is `guessed`, perhaps no record begins at `start`, and these three
    are unknown. `size` and `changed_ns` are the file's size and modification time when it was cut. If the
    file is `packed` (compressed), the range is all of it, and `max_expanded` limits the size of its contents.
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
    max_expanded: int | None = None

    @property
    def bytes(self) -> int:
        """The size of the byte range."""
        return max((self.size if self.stop is None else self.stop) - self.start, 0)

    def report(self) -> FileReport:
        """A new report, for `read_byte_range`."""
        return FileReport(self.path, self.capture, size=self.size)


def captures(paths: Sequence[str], report: CaptureReport) -> list[str]:
    """The capture files that the inputs name, each once: files, folders, patterns, and URIs of these.
    Raises CaptureError if there are none, and for standard input, which cannot be read in parts."""
    if STDIN in paths:
        raise CaptureError(STDIN, "standard input cannot be cut", "write it to a file first")
    return files_of(paths, report)


def cut(path: str, size_bytes: int, max_expanded: int | None = None) -> list[ByteRange]:
    """Cuts a capture file into byte ranges of about this size; all but the first are guesses. Raises
    CaptureError if the file cannot be read or is not a capture."""
    size, changed_ns = size_and_mtime(path)
    name = capture_name(path)
    with opened(path) as file:
        packed = is_packed(_read(file, 8))
    if packed:
        whole = ByteRange(
            path, name, 0, None, b"", size, changed_ns, packed=True, max_expanded=max_expanded
        )
        with closing(records(whole, whole.report())) as packets:
            next(packets, None)
        return [whole]
    step = max(size_bytes, SMALLEST) & ~3  # blocks of pcapng begin at multiples of 4
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


def read_byte_range(
    byte_range: ByteRange,
    report: FileReport,
    embedded: KeyLog | None = None,
    readers: RecordReaders | None = None,
) -> Generator[Packets, None, None]:
    """The packets of a byte range, the same as from reading the whole file. TLS secrets in the range are
    added to `embedded`. Raises CaptureError if the file has changed since it was cut."""
    report.before = byte_range.first - 1
    yield from records(byte_range, report, embedded, readers)
    report.finished = True


def records(
    byte_range: ByteRange,
    report: FileReport,
    embedded: KeyLog | None = None,
    readers: RecordReaders | None = None,
) -> Reading:
    """Yields the packets, as `read_byte_range` does, and returns the state at the end of reading."""
    report.last_ns = byte_range.before_ns
    stop = NOWHERE if byte_range.stop is None else byte_range.stop
    check_unchanged(byte_range)
    if byte_range.start >= stop:
        return Ended(byte_range.start, byte_range.context, 0, interfaces_in(byte_range.context))
    if byte_range.start:
        part = byte_range.context, byte_range.start, stop
        reading = read_part(byte_range.path, report, *part, embedded, readers)
    else:
        most = byte_range.max_expanded
        reading = read_file(byte_range.path, report, stop, most, embedded, readers)
    with closing(reading):
        ended = yield from reading
    check_unchanged(byte_range)
    return ended


def check_unchanged(byte_range: ByteRange) -> None:
    """Raises CaptureError if the file has changed since it was cut."""
    if size_and_mtime(byte_range.path) != (byte_range.size, byte_range.changed_ns):
        raise CaptureError(byte_range.path, "the file changed while it was read", _GROWING)


def window(byte_range: ByteRange, size: int) -> bytes:
    """At most this many bytes of the file, from the start of the byte range."""
    with opened(byte_range.path, byte_range.start) as file:
        return _read(file, size)


def _read(file: Pieces, size: int) -> bytes:
    parts = []
    while size > 0 and (piece := file.read1(size)):
        parts.append(piece)
        size -= len(piece)
    return b"".join(parts)


def _context(path: str, stop: int) -> bytes:
    """The bytes before `stop` that describe the packets after it, without packets."""
    reading = read_file(path, FileReport(path, ""), stop)
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return bytes(end.value.context)
