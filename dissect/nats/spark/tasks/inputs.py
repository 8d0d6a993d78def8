"""What the tasks of a job work on: tables and options, and captures as they are divided among tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

from ...capture import CaptureReport
from ...capture.reader import RecordReaders
from ...capture.time_range import TimeRange
from ...options import Options
from ...packet import ParserState
from ...partition.byte_ranges import ByteRange, read_byte_range
from ...partition.flow_shares import FlowShares
from ...partition.partitions import Partition, read_partition
from ...secrets.key_log import KeyLogs
from ...types import EARLIEST_NS, Packets


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The tables to make, the options, and the time range of the packets. `secrets` are the byte ranges that
    contain TLS secrets: each task reads them with `key_logs`. Both belong to one timeline (`within`).
    """

    tables: frozenset[str]
    options: Options
    window: TimeRange = TimeRange()
    secrets: tuple[ByteRange, ...] = ()

    def within(self, timeline: Timeline) -> JobSpec:
        """The same tables and options for a timeline."""
        return replace(self, window=timeline.window, secrets=timeline.secrets)

    def packets(
        self, *partitions: Partition, readers: RecordReaders | None = None
    ) -> Iterator[Packets]:
        """The packets of partitions in the time range."""
        runs = (read_partition(partition, CaptureReport(), readers) for partition in partitions)
        return self.window.of(chain.from_iterable(runs))

    def key_logs(self) -> KeyLogs:
        """The TLS secrets of all captures of the timeline. Each process reads them once."""
        return _key_logs(self.options.keylog, self.secrets)


# A process works on one timeline at a time, and should not keep the secrets of others.
@lru_cache(maxsize=1)
def _key_logs(paths: tuple[str, ...], secrets: tuple[ByteRange, ...]) -> KeyLogs:
    found = KeyLogs(paths)
    for byte_range in secrets:
        for _ in read_byte_range(byte_range, byte_range.report(), found.embedded):
            pass
    return found


@dataclass(frozen=True, slots=True)
class Timeline:
    """Captures whose connections may continue from one to the next, cut into partitions. `window` and
    `secrets` are as in `JobSpec`."""

    partitions: Sequence[Partition]
    window: TimeRange = TimeRange()
    secrets: tuple[ByteRange, ...] = ()

    @property
    def bytes(self) -> int:
        """The size of its partitions."""
        return sum(partition.bytes for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class ChunkContext:
    """A partition and the results of all surveys that its decode needs. `state` is that of the parser when it
    begins. `before_ns` is the time of the last TCP packet before it, `latest_ns` the latest time that passed
    for all flows in it (`types.passed_ns`), `later_ns` that in all partitions after it, and `last` is whether
    it is the last partition."""

    partition: Partition
    state: ParserState = ParserState()
    before_ns: int = EARLIEST_NS
    latest_ns: int = EARLIEST_NS
    later_ns: int = EARLIEST_NS
    last: bool = True


@dataclass(frozen=True, slots=True)
class SharedFlows:
    """All partitions, for tasks that each dissect one share of the flows."""

    partitions: Sequence[Partition]
    shares: FlowShares


@dataclass(frozen=True, slots=True)
class WholeTimelines:
    """Timelines, for tasks that each dissect some of them from beginning to end, as one process would."""

    timelines: Sequence[Timeline]


Inputs = Sequence[ChunkContext] | SharedFlows | WholeTimelines
"""The input of the decode: partitions one by one, all of them for each share of the flows, or timelines."""
