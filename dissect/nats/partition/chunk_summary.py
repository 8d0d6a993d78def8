"""The summary of a flow in one chunk: its effect on any state in which the flow may reach the chunk.

A flow has a summary only if each of its packets in the chunk takes the fast path of flow table and
reassembly: a plain ACK, complete, and the next in order. A summary is a list of steps in packet order:
- Bytes: bytes that the true framing has to read: the start of a direction, up to where the survey knew the
  beginning of a frame; every INFO and CONNECT; and the end;
- FrameRun: whole frames, and the context that parsed them. A decoder that is idle where they begin, and has
  the same context, reads the same frames, whatever came before: that is the proof;
- FrameBatch: some of these frames, without payloads, for the true session;
- Deltas: the sums of many frames whose order does not matter, if the session agrees.

Offsets in a summary count from the first byte of its direction in the chunk.
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
from ..sessions import SessionDelta
from ..sessions.requests import may_be_api_error
from ..types import Chunk, Segment


@dataclass(slots=True)
class DirectionSummary:
    """One direction: `size` bytes from `first_seq` on, with the last packet and the last bytes. `ack_seq` is
    the sequence number, give or take one, of packets without bytes before those; -1 if there are none.
    Before the other side's first packet, it sends `early` bytes; for each unit in which that side's windows
    may count, `fills` has how many later segments fill them.
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


@dataclass(slots=True)
class Bytes:
    """Bytes of a direction. `whole`: all bytes of a packet. `silent`: they complete nothing."""

    way: int
    chunk: Chunk
    whole: bool
    silent: bool


@dataclass(slots=True)
class FrameRun:
    """Frames of a direction from `start` to `end`, parsed in `context`. None of them is an INFO or a
    CONNECT."""

    way: int
    start: int
    end: int
    context: Context
    frames: int = 0
    ts_ns: int = 0
    ops: frozenset[str] = frozenset()


@dataclass(slots=True)
class FrameBatch:
    """A batch of a direction that the session has to process."""

    way: int
    batch: Batch


@dataclass(slots=True)
class Deltas:
    """The sums of both directions since the previous step."""

    sums: list[SessionDelta | None]


Step = Bytes | FrameRun | FrameBatch | Deltas


@dataclass(slots=True)
class ChunkSummary:
    """`latest_ns` is the time of the latest packet of any flow in the chunk, `last_ns` that of this
    flow. Without `steps` the summary only counts packets and bytes, as for TLS."""

    latest_ns: int
    last_ns: int
    directions: tuple[DirectionSummary, DirectionSummary]
    steps: list[Step] | None

    def packed(self) -> bytes:
        """The summary as bytes, for `unpacked`. They are a pickle: never load one that someone else may
        have written."""
        output = BytesIO()
        _Pickler(output, pickle.HIGHEST_PROTOCOL).dump(self)
        return zlib.compress(output.getvalue(), 1)


def unpacked(summary: bytes) -> ChunkSummary:
    """The summary that was packed."""
    found: ChunkSummary = pickle.loads(zlib.decompress(summary))
    return found


_Reduced = tuple[Callable[..., object], tuple[object, ...]]


class _Reducers(dict[type, Callable[[object], _Reduced]]):
    """Pickles classes with slots by their fields, in order. That takes a third of the time of
    `object.__reduce_ex__` (7 us instead of 21 for a batch of one frame; CPython 3.11)."""

    def __missing__(self, cls: type) -> Callable[[object], _Reduced]:
        if not issubclass(cls, (Frame, Batch, Chunk, FrameBatch)):
            raise KeyError(cls)
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
    """Sets the operations of each run of frames."""
    skips: dict[int, FrameRun] = {}
    for step in steps:
        if isinstance(step, FrameRun):
            skips[step.way] = step
        elif isinstance(step, Deltas):
            for way, delta in enumerate(step.sums):
                if delta:
                    skips[way].ops |= {kind.op for kind in delta.counts}
        elif isinstance(step, FrameBatch):
            skips[step.way].ops |= {frame.op for frame in step.batch.frames}


def leave_out_carried(steps: Iterable[Step]) -> None:
    for step in steps:
        if isinstance(step, Deltas):
            for delta in filter(None, step.sums):
                delta.carried.clear()


def lightened(batch: Batch) -> Batch:
    """The batch without bytes of packets, and without payloads that cannot be errors."""
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
