"""The summary of a flow in one chunk: the effect of its packets on any state in which the flow may reach the
chunk.

A flow has a summary only if each of its packets in the chunk takes the fast path of flow table and
reassembly: it is a plain ACK, complete, and the next in order. A summary is a list of steps in the order of
the packets:
- Bytes: bytes that the true framing has to read. These are the first bytes of a direction, up to the first
  frame whose beginning the survey knew; each INFO and CONNECT; and the last bytes;
- SkippedFrames: whole frames, and the context in which they were parsed. A decoder that is idle where they
  begin, and has the same context, decodes the same frames, whatever came before: that is the proof;
- FrameBatch: some of these frames, without payloads, for the true session;
- Deltas: the sums over many of these frames, which the true session may add if their order does not matter.

A step has the `index` of its direction in `ChunkSummary.directions`. Offsets count from the first byte of
the direction in the chunk.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from io import BytesIO
from operator import attrgetter

from natsync.protocol import Context, Frame, HMsg, HPub, LMsg, Msg, RHMsg

from ..framing.events import Batch
from ..outcomes import may_be_api_error
from ..sessions import SessionDelta
from ..types import EARLIEST_NS, NO_PATH, Chunk, FlowPath, Segment


@dataclass(slots=True)
class DirectionSummary:
    """One direction: `packets` packets with `size` bytes from `first_seq` on, all on one `path`. `last` is
    the last packet, `source` the last one with payload, and `chunk` its bytes. `ack_seq` is the sequence
    number, give or take one, of the packets before these bytes; -1 if there are none.

    To count full receive windows, `early` is the number of bytes before the first packet of the other
    direction; and for each unit in which that side may count its windows, `fills` has the number of later
    segments that fill one. `wrong` is whether a checksum is wrong.
    """

    key: bytes
    packets: int
    first_seq: int
    size: int
    last: Segment | None
    chunk: Chunk | None
    ack_seq: int = -1
    early: int = 0
    fills: dict[int, int] = field(default_factory=dict)
    source: Segment | None = None
    path: FlowPath = NO_PATH
    wrong: bool = False


@dataclass(slots=True)
class Bytes:
    """Bytes of a direction: all bytes of a packet if `whole`. If `silent`, they complete no frame."""

    index: int
    chunk: Chunk
    whole: bool
    silent: bool


@dataclass(slots=True)
class SkippedFrames:
    """Frames of a direction from offset `start` to `end`, parsed in `context`. None of them is an INFO or a
    CONNECT. `ts_ns` is the time of the last one, and `ops` are the operations of all."""

    index: int
    start: int
    end: int
    context: Context
    frames: int = 0
    ts_ns: int = EARLIEST_NS
    ops: frozenset[str] = frozenset()


@dataclass(slots=True)
class FrameBatch:
    """Frames of a direction that the session has to process."""

    index: int
    batch: Batch


@dataclass(slots=True)
class Deltas:
    """The sums over frames of both directions since the previous step."""

    sums: list[SessionDelta | None]


Step = Bytes | SkippedFrames | FrameBatch | Deltas


@dataclass(slots=True)
class ChunkSummary:
    """`latest_ns` is the time of the latest packet of any flow in the chunk, `last_ns` the time of the latest
    packet of this flow, `least_ns` that of its earliest one.
    Without `steps`, the summary only counts packets and bytes, as for TLS.
    """

    latest_ns: int
    last_ns: int
    directions: tuple[DirectionSummary, DirectionSummary]
    steps: list[Step] | None
    least_ns: int = EARLIEST_NS

    def packed(self) -> bytes:
        """The summary as bytes, for `unpacked`. They are a pickle: never load one that someone else may
        have written."""
        output = BytesIO()
        _Pickler(output, pickle.HIGHEST_PROTOCOL).dump(self)
        return zlib.compress(output.getvalue(), 1)


def unpacked(summary: bytes) -> ChunkSummary:
    """The summary, from the bytes that `packed` returned."""
    found: ChunkSummary = pickle.loads(zlib.decompress(summary))
    return found


_Reduced = tuple[Callable[..., object], tuple[object, ...]]


class _Reducers(dict[type, Callable[[object], _Reduced]]):
    """Pickles classes with slots by their fields, in order. That takes a third of the time of
    `object.__reduce_ex__` (7 us instead of 21 for a batch of one frame; CPython 3.11)."""

    def __missing__(self, cls: type) -> Callable[[object], _Reduced]:
        if not issubclass(cls, (Frame, Batch, Chunk, FrameBatch)):
            raise KeyError(cls)
        if issubclass(cls, Frame):
            names = cls._fields
        else:
            names = tuple(item.name for item in fields(cls))
        values = attrgetter(*names)

        def frame(value: object) -> _Reduced:
            return _frame, (cls, names, values(value))

        def other(value: object) -> _Reduced:
            return cls, values(value)

        reduce = self[cls] = frame if issubclass(cls, Frame) else other
        return reduce


class _Pickler(pickle.Pickler):
    dispatch_table = _Reducers()


def _frame(cls: type[Frame], names: tuple[str, ...], values: tuple[object, ...]) -> Frame:
    """A frame with these fields."""
    frame: Frame = object.__new__(cls)
    for name, value in zip(names, values):
        setattr(frame, name, value)
    return frame


def name_operations(steps: Iterable[Step]) -> None:
    """Sets the operations of all skipped frames."""
    skips: dict[int, SkippedFrames] = {}
    for step in steps:
        if isinstance(step, SkippedFrames):
            skips[step.index] = step
        elif isinstance(step, Deltas):
            for index, delta in enumerate(step.sums):
                if delta:
                    skips[index].ops |= {kind.op for kind in delta.counts}
        elif isinstance(step, FrameBatch):
            skips[step.index].ops |= {frame.op for frame in step.batch.frames}


def leave_out_carried(steps: Iterable[Step]) -> None:
    """Empties the sums by subject, which only the table `subscriptions` needs."""
    for step in steps:
        if isinstance(step, Deltas):
            for delta in filter(None, step.sums):
                delta.carried.clear()


def lightened(batch: Batch) -> Batch:
    """The batch without the bytes of packets, and without payloads that cannot be errors of JetStream."""
    first, last = (
        Chunk(chunk.ts_ns, chunk.number, chunk.capture, chunk.offset, b"")
        for chunk in (batch.first, batch.last)
    )
    frames = [_bare(frame) for frame in batch.frames]
    return Batch(batch.direction, batch.ts_ns, first, last, frames, None)


def _bare(frame: Frame) -> Frame:
    headers = frame.headers if isinstance(frame, (HPub, HMsg, RHMsg, LMsg)) else b""
    if isinstance(frame, (Msg, HMsg)) and may_be_api_error(frame.payload):
        headers += frame.payload
    return frame.placed(frame.offset, frame.total_bytes, headers)
