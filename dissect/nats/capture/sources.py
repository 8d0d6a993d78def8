"""The inputs that a user names -> packets in one timeline.

The first bytes of an input show its format, never its file name.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from itertools import chain, islice
from math import inf
from typing import cast

from ..errors import CaptureError, MissingLibrary
from ..secrets.key_log import KeyLog
from ..storage import is_uri
from ..types import Packet, Packets
from . import decompress as unpack
from . import pcap, pcapng
from .files import (
    OVERLAP,
    capture_name,
    contents,
    identity,
    matches,
    opened,
    size_and_mtime,
)
from .merge import MOST_OPEN, merge
from .reader import NOWHERE, Blocks, Pieces, Reading, RecordReaders, pieces_of
from .report import CaptureReport, FileReport
from .time_range import TimeBound, TimeRange

STDIN = "-"

# Unsupported formats that users are likely to have: first bytes -> the format, and how to convert it.
_OTHERS = {
    b"\x04\x22\x4d\x18": ("compressed with lz4", "unpack it with lz4 -d"),
    b"PK\3\4": ("a zip archive", "unpack it first"),
    b"snoop\0\0\0": ("a snoop capture", "convert it with editcap -F pcap"),
    b"GMBU": ("a Network Monitor capture", "convert it with editcap -F pcap"),
    b"\xac\x01\x00\x1c": ("a pcap of an Ixia device", "convert it with editcap -F pcap"),
    b"\xab\x01\x00\x1c": ("a pcap of an Ixia device", "convert it with editcap -F pcap"),
    b"\x4d\x3c\x2b\xa1": ("a pcap of a Navtel device", "convert it with editcap -F pcap"),
}
# The first event of an ETW trace (SYSTEM_TRACE_HEADER of Windows), after the header of its buffer.
_ETL_AT, _ETL = 72, (b"\x02\0\x01\xc0", b"\x02\0\x02\xc0")
_TCPDUMP_TEXT = re.compile(
    rb"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{6,9} (\S+ +(In|Out|M|B|P) +)?(IP6?|ARP|STP)\b"
)
_ERF_HEADER = 16
_TAR_AT, _TAR = 257, b"ustar"
_REMEDY = "give pcap or pcapng, plain or compressed with gzip, bzip2, xz or zstd"


def read_runs(
    paths: Sequence[str],
    report: CaptureReport,
    max_expanded: int | None = None,
    name: Callable[[str], str] = capture_name,
    embedded: KeyLog | None = None,
    readers: RecordReaders | None = None,
) -> Generator[Packets, None, None]:
    """The packets of all inputs in one timeline (see `merge`), many at a time. At most `max_expanded` bytes
    of a compressed file's contents are read; see `decompress.bounded`. `name` makes the capture name of
    packets from the path of their file. TLS secrets in the files are added to `embedded`. Records are read
    with `readers`, if there are any.

    A path is a file, a folder (for the captures in it, but not in its subfolders), a pattern, or `-` for
    standard input, whose packets are yielded as they arrive. A file that is named twice is read once.
    `report` is updated during reading. Raises CaptureError before the first packet if an input is missing,
    empty or not a capture, and later if too many captures overlap.
    """
    sources = [
        _Source(path, max_expanded, name, embedded, readers) for path in files_of(paths, report)
    ]
    sizes = [source.report.size for source in sources]
    size = None if None in sizes else sum(filter(None, sizes))
    # The bytes read so far belong to other timelines in the same report.
    report.size = None if size is None else report.position + size
    if len(sources) == 1:
        yield from sources[0].packets(report)
        return
    times = [(source.first_ns(), number) for number, source in enumerate(sources)]
    row = [(first_ns, sources[number]) for first_ns, number in sorted(times)]
    yield from merge(
        [(first_ns, partial(source.packets, report)) for first_ns, source in row],
        too_many(row[0][1].path),
    )


def read_packets(paths: Sequence[str], report: CaptureReport) -> Iterator[Packet]:
    """The packets of `read_runs`, one by one."""
    return chain.from_iterable(read_runs(paths, report))


def is_input(output: str | int, paths: Sequence[str]) -> bool:
    """Whether `output`, a path or a file descriptor, is a regular file that `read_packets` would read for
    `paths`. Files are compared by device and inode, so that links and redirections do not hide it.
    """
    there = os.stat(output)
    if not stat.S_ISREG(there.st_mode):
        return False
    for path in files_of(paths, CaptureReport()):
        if path == STDIN:
            file: str | int | None = _stdin()
        else:
            file = None if is_uri(path) or not os.path.exists(path) else path
        if file is not None and os.path.samestat(os.stat(file), there):
            return True
    return False


def _stdin() -> int | None:
    """The file descriptor of standard input, if it has one."""
    try:
        return sys.stdin.fileno() if sys.stdin else None
    except (OSError, ValueError):
        return None


def too_many(path: str) -> CaptureError:
    """The error for more overlapping captures than can be open together."""
    return CaptureError(path, f"more than {MOST_OPEN} captures overlap in time", OVERLAP)


def files_of(paths: Sequence[str], report: CaptureReport) -> list[str]:
    """The capture files that the inputs name, each once. The other files in folders are added to `report`."""
    folders: dict[str, list[str]] = {}

    def of_folder(folder: str, inside: list[str]) -> list[str]:
        name = identity(folder)
        if name not in folders:  # else its other files would count twice
            folders[name] = list(_captures_in(report, folder, inside))
        return folders[name]

    return _each_once(_files(paths, of_folder))


def names_of(paths: Sequence[str]) -> list[str]:
    """The files that the inputs name, each once, with all files in folders. No file is opened."""
    return _each_once(_files(paths, lambda _, inside: inside))


def _each_once(paths: Iterable[str]) -> list[str]:
    return list({identity(path): path for path in paths}.values())


def time_range(
    paths: Sequence[str], from_time: TimeBound | None, until_time: TimeBound | None
) -> TimeRange:
    """The range between two times. If one of them is relative, this reads the first packet of each file."""
    bounds = from_time, until_time
    first_ns = 0
    if any(bound is not None and bound.elapsed for bound in bounds):
        times = [_Source(path, None).first_ns() for path in files_of(paths, CaptureReport())]
        first_ns = int(min((each for each in times if each != inf), default=0))
    return TimeRange(*(bound and bound.after(first_ns) for bound in bounds))


class _Source:
    """A capture file, or standard input."""

    def __init__(
        self,
        path: str,
        max_expanded: int | None,
        name: Callable[[str], str] = capture_name,
        embedded: KeyLog | None = None,
        readers: RecordReaders | None = None,
    ) -> None:
        self.path = path
        self._max_expanded = max_expanded
        self._embedded = embedded
        self._readers = readers
        self.report = FileReport(path, name(path), size=file_size(path))
        self._begun: Reading | None = None
        self._first: list[Packets] = []

    def first_ns(self) -> float:
        """The time of the first packet, or infinity without packets. Reads the beginning of the input. A file
        is then closed and later opened again, because there may be more files than a process can have open.
        """
        again = self.report.size is not None
        report = FileReport(self.path, "") if again else self.report
        reader = self._read(report)
        first = list(islice(reader, 1))
        if again:
            reader.close()
        else:
            self._first, self._begun = first, reader
        return first[0].places[0][0] if first else inf

    def packets(self, report: CaptureReport) -> Generator[Packets, None, None]:
        """All packets of the input. Adds its `FileReport` to `report`."""
        report.files.append(self.report)
        yield from self._first
        self._first = []
        with closing(self._begun or self._read(self.report)) as reader:
            yield from reader
        self.report.finished = True

    def _read(self, report: FileReport) -> Reading:
        return read_file(
            self.path, report, NOWHERE, self._max_expanded, self._embedded, self._readers
        )


def file_size(path: str) -> int | None:
    """The size of a regular file in bytes; None for anything else."""
    if path == STDIN:
        return None
    try:
        return size_and_mtime(path)[0]
    except CaptureError:
        return None


def _files(
    paths: Sequence[str], of_folder: Callable[[str, list[str]], Iterable[str]]
) -> Iterator[str]:
    """The files that the inputs name. `of_folder` selects from the files in a folder."""
    for path in paths:
        if "\0" in path:
            raise CaptureError(path, "no file has such a name")
        if path == STDIN:
            yield path
        elif (inside := contents(path)) is not None:
            yield from of_folder(path, inside)
        elif (found := matches(path)) is not None:
            if not found:
                raise CaptureError(path, "no file has such a name")
            yield from _files(found, of_folder)
        else:
            yield path


def _captures_in(report: CaptureReport, folder: str, paths: list[str]) -> Iterator[str]:
    found = False
    for path in paths:
        try:
            with closing(read_file(path, FileReport(path, ""))) as packets:
                next(packets, None)
        except CaptureError as error:
            shut = isinstance(error.__cause__, (OSError, MissingLibrary))
            (report.unreadable if shut else report.passed_over).append(str(error))
        else:
            found = True
            yield path
    if not found:
        raise CaptureError(folder, "no file in this folder is a capture", _REMEDY)


def read_file(
    path: str,
    report: FileReport,
    stop: int = NOWHERE,
    max_expanded: int | None = None,
    embedded: KeyLog | None = None,
    readers: RecordReaders | None = None,
) -> Reading:
    """The packets of a file of any format, except those that begin at byte `stop` (of the unpacked contents)
    or later. The file is closed after the last packet, or when the generator is closed. TLS secrets in the
    file are added to `embedded`."""
    with unpacked(path, report, max_expanded, readers=readers) as blocks:
        return (yield from read_records(report.format, blocks, report, stop, embedded, readers))


def read_part(
    path: str,
    report: FileReport,
    context: bytes,
    start: int,
    stop: int = NOWHERE,
    embedded: KeyLog | None = None,
    readers: RecordReaders | None = None,
) -> Reading:
    """The packets of the records that begin in a part of a file, from `start` up to before `stop`; a record
    begins at `start`. The bytes of `context`, put before the part, make it a complete capture (see `Ended`).
    TLS secrets in the part are added to `embedded`.
    """
    with closing(pieces_of(opened(path, start), report, readers)) as pieces:
        blocks = Blocks(chain((context,), pieces), start - len(context))
        blocks.fill(len(context))
        kind = "pcapng" if pcapng.is_section(context) else "pcap"
        return (yield from read_records(kind, blocks, report, stop, embedded, readers))


@contextmanager
def unpacked(
    path: str,
    report: FileReport,
    max_expanded: int | None = None,
    file: AbstractContextManager[Pieces] | None = None,
    readers: RecordReaders | None = None,
) -> Iterator[Blocks]:
    """The contents of a capture from the start on, unpacked if they are compressed. `report` gets the name of
    the format. If `file` is given, the bytes come from it, and `path` is only its name in errors.
    """
    with closing(pieces_of(file or _opened(path), report, readers)) as pieces:
        blocks = Blocks(pieces)
        blocks.fill(pcap.HEADER)
        for magic, (name, opener) in unpack.FORMATS.items():
            if blocks.data.startswith(magic):
                report.format = f"{name} "
                expanded = _needing(path, opener(chain((blocks.data,), pieces)), name)
                blocks = Blocks(unpack.bounded(expanded, lambda: report.position, max_expanded))
                blocks.fill(pcap.HEADER)
                break
        report.format += _format(path, blocks)
        yield blocks


def read_records(
    kind: str,
    blocks: Blocks,
    report: FileReport,
    stop: int = NOWHERE,
    embedded: KeyLog | None = None,
    readers: RecordReaders | None = None,
) -> Reading:
    """The packets of a capture in the format `kind`. TLS secrets in it are added to `embedded`."""
    if kind.endswith("pcapng"):
        return pcapng.read_pcapng(blocks, report, stop, embedded, readers)
    return pcap.read_pcap(blocks, report, stop, readers)


def _needing(path: str, contents: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yields the contents. Raises CaptureError if the library that unpacks them is missing."""
    try:
        yield from contents
    except MissingLibrary as error:
        remedy = f"{error}, or unpack it with {name} -d"
        raise CaptureError(path, f"the file is compressed with {name}", remedy) from error


def _opened(path: str) -> AbstractContextManager[Pieces]:
    if path != STDIN:
        return opened(path)
    if sys.stdin is None:
        raise CaptureError(path, "standard input is closed")
    return nullcontext(cast(Pieces, sys.stdin.buffer))


def is_packed(head: bytes) -> bool:
    """Whether a file that begins with these bytes is compressed."""
    return any(head.startswith(magic) for magic in unpack.FORMATS)


def _format(path: str, blocks: Blocks) -> str:
    """The format of an input, found by its first bytes. Raises CaptureError if it is not supported."""
    head = blocks.data
    if head[:4] in pcap.MAGICS and len(head) >= pcap.HEADER:
        return pcap.format_name(head[:4])
    if pcapng.is_section(head):
        return "pcapng"
    if blocks.fault:
        raise CaptureError(path, blocks.fault)
    if not head:
        raise CaptureError(path, "the file is empty", _REMEDY)
    if head[:4] in pcap.MAGICS or (head[:4] == pcapng.MAGIC and len(head) < pcapng.HEADER):
        raise CaptureError(path, "the file ends inside its header")
    for magic, (what, remedy) in _OTHERS.items():
        if head.startswith(magic):
            raise CaptureError(path, f"the file is {what}", remedy)
    if head[_ETL_AT : _ETL_AT + 4] in _ETL:
        raise CaptureError(path, "the file is an ETW trace", "convert it with etl2pcapng")
    if _TCPDUMP_TEXT.match(head):
        raise CaptureError(path, "the file is tcpdump's text", "capture again with tcpdump -w")
    if path.lower().endswith(".erf") and len(head) >= _ERF_HEADER:
        raise CaptureError(path, "the file is an ERF capture", "convert it with editcap -F pcap")
    if head.startswith(_TAR, _TAR_AT):
        raise CaptureError(path, "the file is a tar archive", "unpack it first")
    raise CaptureError(path, f"not a capture: it begins with {head[:8]!r}", _REMEDY)
