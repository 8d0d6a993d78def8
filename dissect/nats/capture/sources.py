"""Inputs as the user names them -> packets in one timeline.

Formats are told by their first bytes, never by a file's name. Several inputs are read one after the
other, in order of their first packets, as rotated captures want it.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from io import BufferedIOBase
from itertools import chain, islice
from math import inf
from typing import cast

from ..errors import CaptureError
from ..wire import Packet
from . import pcap, pcapng
from .blocks import Blocks, gunzip, pieces_of
from .report import CaptureReport, FileReport

STDIN = "-"

_GZIP = b"\x1f\x8b"
# What people do have: first bytes -> what it is, and the way to a file that can be read.
_OTHERS = {
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "unpack it with zstd -d"),
    b"\xfd7zXZ\0": ("compressed with xz", "unpack it with xz -d"),
    b"BZh": ("compressed with bzip2", "unpack it with bzip2 -d"),
    b"\x04\x22\x4d\x18": ("compressed with lz4", "unpack it with lz4 -d"),
    b"PK\3\4": ("a zip archive", "unpack it first"),
    b"snoop\0\0\0": ("a snoop capture", "convert it with editcap -F pcap"),
    b"GMBU": ("a Network Monitor capture", "convert it with editcap -F pcap"),
}
_REMEDY = "give pcap or pcapng, plain or gzip"


def read_packets(paths: Sequence[str], report: CaptureReport) -> Iterator[Packet]:
    """The packets of all inputs, one timeline: file after file, in order of their first packets.

    A path is a file, a folder (its files that are captures; not its folders), a pattern, or `-` for
    standard input, whose packets come out as they arrive. A file that is named twice is read once.
    `report` fills up meanwhile. Raises CaptureError, before the first packet, where an input is
    missing, empty or no capture.
    """
    files = {os.path.realpath(path): path for path in _files(paths, report)}
    sources = [_Source(path) for path in files.values()]
    if len(sources) > 1:
        times = {source: source.first_ns() for source in sources}
        sources.sort(key=lambda source: times[source])
    return chain.from_iterable(source.packets(report) for source in sources)


def is_input(path: str, paths: Sequence[str]) -> bool:
    """Whether the file `path` is one that `read_packets` would read for `paths`."""
    real = os.path.realpath(path)
    return any(os.path.realpath(file) == real for file in _files(paths, CaptureReport()))


class _Source:
    """A capture file, or standard input."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.report = FileReport(path, os.path.basename(path))
        self._begun: Iterator[Packet] | None = None

    def first_ns(self) -> float:
        """The time of its first packet, or infinity: found out by reading a little. A file is opened
        again later, since there may be more of them than a process can hold open."""
        again = os.path.isfile(self.path)
        report = FileReport(self.path, "") if again else self.report
        packets = _read(self.path, report)
        first = list(islice(packets, 1))
        if again:
            packets.close()
        else:
            self._begun = chain(first, packets)
        return first[0].ts_ns if first else inf

    def packets(self, report: CaptureReport) -> Iterator[Packet]:
        report.files.append(self.report)
        return self._begun or _read(self.path, self.report)


def _files(paths: Sequence[str], report: CaptureReport) -> Iterator[str]:
    """The files that the inputs stand for."""
    for path in paths:
        if os.path.isdir(path):
            yield from _captures_in(path, report)
        elif glob.has_magic(path) and not os.path.exists(path):
            matches = sorted(glob.glob(path))
            if not matches:
                raise CaptureError(path, "no file has such a name")
            yield from _files(matches, report)
        else:
            yield path


def _captures_in(folder: str, report: CaptureReport) -> Iterator[str]:
    found = False
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise CaptureError(folder, f"cannot be read ({error.strerror})") from error
    for path in (os.path.join(folder, name) for name in names):
        if not os.path.isfile(path):
            continue
        try:
            with closing(_read(path, FileReport(path, ""))) as packets:
                next(packets, None)
        except CaptureError as error:
            shut = isinstance(error.__cause__, OSError)
            (report.unreadable if shut else report.passed_over).append(str(error))
        else:
            found = True
            yield path
    if not found:
        raise CaptureError(folder, "no file in this folder is a capture", _REMEDY)


def _read(path: str, report: FileReport) -> Generator[Packet, None, None]:
    """The packets of a file, whatever its format. The file is closed behind the last one, and with
    the generator."""
    pieces = pieces_of(_opened(path))
    blocks = Blocks(pieces)
    blocks.fill(pcap.HEADER)
    if blocks.data.startswith(_GZIP):
        report.format = "gzip "
        blocks = Blocks(gunzip(chain((blocks.data,), pieces)))
        blocks.fill(pcap.HEADER)
    try:
        kind = _format(path, blocks)
    except CaptureError:
        pieces.close()
        raise
    report.format += kind
    return (pcap.read_pcap if kind == "pcap" else pcapng.read_pcapng)(blocks, report)


def _opened(path: str) -> AbstractContextManager[BufferedIOBase]:
    if path == STDIN:
        if sys.stdin is None:
            raise CaptureError(path, "standard input is closed")
        return nullcontext(cast(BufferedIOBase, sys.stdin.buffer))
    try:
        return open(path, "rb")
    except FileNotFoundError as error:
        raise CaptureError(path, "no such file") from error
    except OSError as error:
        raise CaptureError(path, f"cannot be opened ({error.strerror})") from error


def _format(path: str, blocks: Blocks) -> str:
    """The format that an input is in, by its first bytes; CaptureError if none that we read."""
    head = blocks.data
    if head[:4] in pcap.MAGICS and len(head) >= pcap.HEADER:
        return "pcap"
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
    raise CaptureError(path, f"not a capture: it begins with {head[:8]!r}", _REMEDY)
