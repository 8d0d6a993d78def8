"""Finds the next position in a stream where a frame provably begins: after a gap, after bytes that are not a
frame, or in a capture that began late.

A candidate is a position where an operation begins, right after a line end or a gap, or where the search
begins. From there, frames must follow each other without a break to the end of the available bytes, and all
of them must fit the sender and the kind. This refutes nearly every look-alike inside a payload, because
sooner or later the payload continues with something else. A refuted candidate stays refuted: each line is
parsed once and each byte is searched once, so that the time is linear whatever the bytes are. The earliest
candidate that is not refuted is tried first, because a later one may be in its payload.

These numbers of consecutive frames are accepted as proof:
- two, if the first begins where a packet begins and the last ends where a packet ends;
- three, if the last ends with a short packet (the sender has flushed), or if two packets in a row end with a
  frame, or if the frames cover many bytes, or if a gap or the end of the bytes follows;
- if the stream is known to be NATS: two, if two packets in a row end with a frame, or if the last frame ends
  with a packet before a gap or the end of the bytes, or if a gap cuts the next line after its operation;
- if the stream is known to be NATS: one before a gap or the end of the bytes, if it begins with a packet,
  because a snap length leaves no more;
- if the stream is known to be NATS: frames that fill packets, even if the next frame is refuted, because they
  would be accepted if the bytes ended before it.

The last two rules also apply to the frames at the end of a chain whose first frames are not proven. The first
frames are then not read.

So a whole frame in the middle of a packet is not always found if a gap follows soon. Less proof would invent
frames: a payload may quote a message and the line after it, and a gap may hide that the text goes on.

Where the bytes before a candidate are missing, they may belong to its operation: the rest of an HMSG, HPUB or
UNSUB is a MSG, PUB or SUB. Such a line is no candidate if it fits the longer operation as well.

As long as the connection is not known to carry NATS, refuted bytes are kept while there is room. They are
searched again when the connection has proven itself elsewhere.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from natsync.protocol import Context

from ...transport.patterns import CANDIDATE, START, START_BYTES
from ..contexts import ALL
from .buffer import ByteRun, Held, ResyncBuffer
from .chain import Chain

_FAR = 256 << 10
_LINE_BYTES = 1 << 20
_HELD_BYTES = 3 << 20  # of memory: enough for a body of the default max_payload
_HELD_AT_LEAST = 32 << 10
_KEPT_BYTES = 32 << 10  # while it is not known whether this is NATS
_VISITED = 1 << 14
# The rest of an HMSG or HPUB without a reply, or of an UNSUB with a maximum, after the first letters.
_REST = re.compile(rb"(?:MSG \S+ \S+|PUB \S+|SUB) \d+ \d+\r\n")


class Quota:
    """Limits the memory of all resynchronizers of a capture. Above `limit_bytes` in total, each may hold only
    `_HELD_AT_LEAST` bytes."""

    def __init__(self, limit_bytes: int = 64 << 20) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0


_NONE: set[int] = set()  # always empty: most resynchronizers visit nothing


class _ChainState(Enum):
    WAITING = auto()  # for more bytes
    CUT = auto()  # a gap hides the next control line
    BEGUN = auto()  # a gap cuts the next control line after its operation
    BROKEN = auto()  # refuted


class Loss(NamedTuple):
    """Where framing ended: the item, the offset from which on no frame was read, and the number of captured
    bytes from there on that the resynchronizer does not get."""

    item: Held
    offset: int
    skipped: int


class Resynchronizer:
    """Takes items with `push` until it reports that the beginning of a frame is proven; `chain` is the
    proof.

    `contexts` has the contexts in which the stream may be parsed. Unless the stream `is_nats`, the frames
    must contain an operation that no other protocol has. While `muted` is set, items are held but not
    searched.
    """

    def __init__(
        self,
        quota: Quota,
        contexts: tuple[Context, ...] = ALL,
        is_nats: bool = False,
        after: Loss | None = None,
    ) -> None:
        self.buffer = ResyncBuffer()
        self.contexts = contexts
        self.is_nats = is_nats
        self.muted = False
        self.chain: Chain | None = None
        self._after = after
        self.latest: Held | None = after and after.item
        self._begin = after.offset if after else -1
        self._quota = quota
        self._charged = 0
        self._least = 0  # there is no candidate before this offset
        self._cursor = 0  # all candidates before this offset are refuted
        self._visited = _NONE
        self._visited_most = _VISITED

    @property
    def begins_stream(self) -> bool:
        """Whether the stream was never read before."""
        return self._after is None

    def push(self, item: Held) -> bool:
        """Adds the next item; returns whether the beginning of a frame is now proven."""
        if not self.buffer.items and not self.buffer.runs:
            self._cursor = max(self._cursor, item.offset)
            if self._begin < 0:
                self._begin = item.offset
        self.latest = item
        self.buffer.add(item)
        self._charge(self.buffer.cost_bytes)
        if self.muted:
            return False
        proven = self._follow(False)
        self._charge(self.buffer.cost_bytes)
        return proven

    def is_inside_payload(self, offset: int) -> bool:
        """Whether `offset` lies in a payload of frames that are not proven yet."""
        return self.chain is not None and self.chain.stop > offset

    def skipped(self, stop: int) -> tuple[int, int]:
        """The captured bytes before `stop` in which no frame was found: their offset and number."""
        length = self.buffer.skipped_before(stop) + (self._after.skipped if self._after else 0)
        return self._begin, length

    @property
    def whole_ops(self) -> set[str]:
        """The operations of the frames that are not proven yet, if whole frames fill all pushed bytes; else
        empty."""
        buffer, chain = self.buffer, self.chain
        if not chain or buffer.skipped or buffer.missing:
            return set()
        return chain.ops if chain.next == buffer.end and chain.start == buffer.start else set()

    @property
    def last_ops(self) -> set[str]:
        """The operations of the frames that are not proven yet, if there are at least two, they reach the
        end, and they can only be NATS; else empty."""
        chain = self.chain
        if not chain or chain.next != self.buffer.end or not chain.specific:
            return set()
        return chain.ops if chain.frames > 1 else set()

    def finish(self) -> bool:
        """Ends the input; returns whether the held items are proof enough."""
        return not self.muted and self._follow(True)

    def refute(self, offset: int) -> None:
        """Refutes all candidates up to `offset`."""
        self._least = self._cursor = offset + 1

    def narrow(self, contexts: tuple[Context, ...]) -> None:
        """Sets that the stream is NATS, in one of these contexts. Held bytes will be searched again."""
        self.is_nats = True
        self.muted = False
        self.contexts = contexts
        self.chain = None
        self._visited = _NONE
        self._cursor = max(self._least, self.buffer.start)

    def release(self, offset: int) -> list[Held]:
        """Returns the held items from `offset` on. The resynchronizer gives back its quota and is done."""
        self._charge(0)
        return self.buffer.rest(offset)

    def __setstate__(self, state: dict[str, object]) -> None:
        """Charges the quota of the process that continues the search."""
        self.__dict__.update(state)
        self._quota.used_bytes += self._charged

    def _charge(self, held: int) -> None:
        self._quota.used_bytes += held - self._charged
        self._charged = held

    def _follow(self, final: bool) -> bool:
        """Follows the first candidate, and the next one whenever a candidate is refuted. Returns whether one
        is proven."""
        while True:
            if self.chain is None:
                start = self._candidate()
                if start is None:
                    self._forget(self._cursor - 1)
                    return False
                self.chain = Chain(start, self.contexts)
                self._cursor = start + 1
                self._forget(start)
            state = self._walk(self.chain)
            broken = state is _ChainState.BROKEN
            proof = self._kept(self.chain) if broken else self._proof(self.chain, state, final)
            if proof:
                self.chain.proof = proof
                return True
            if state is _ChainState.WAITING and not final and not self._is_full():
                return False
            self.chain = None

    def _forget(self, offset: int) -> None:
        """Forgets the bytes before `offset`, which were refuted."""
        buffer = self.buffer
        if self.is_nats or buffer.cost_bytes > self._limit(_KEPT_BYTES):
            buffer.drop(offset)

    def _is_full(self) -> bool:
        return self.buffer.cost_bytes > self._limit(_HELD_BYTES)

    def _limit(self, most: int) -> int:
        tight = self._quota.used_bytes > self._quota.limit_bytes
        return _HELD_AT_LEAST if tight else most

    def _proof(self, chain: Chain, state: _ChainState, final: bool) -> str:
        """Why the frames are proven; empty if they are not."""
        if not (self.is_nats or chain.specific):
            return ""
        buffer, frames = self.buffer, chain.frames
        with_packet = buffer.begins_chunk(chain.start)
        if state is _ChainState.WAITING and chain.next == buffer.end and not chain.stop:
            chain.aligned += 1
            flushed = buffer.last < buffer.largest
            if frames >= 2 and with_packet:
                return "they begin with a packet and end with one"
            if frames >= (2 if self.is_nats else 3) and chain.aligned > 1:
                return "two packets in a row end with a frame"
            if frames >= 3 and flushed:
                return "the last one ends with a short packet"
        else:
            chain.aligned = 0
        begun = state is _ChainState.BEGUN
        ended = final or begun or state is _ChainState.CUT
        if frames >= 3 and (chain.next - chain.start >= _FAR or self._is_full()):
            return "they cover many bytes"
        if not ended:
            return ""
        if frames >= 3 or self.is_nats and frames == 2 and (begun or chain.at_packet_end):
            return "a gap or the end of the bytes follows"
        if with_packet and frames >= (1 if self.is_nats else 2) or self.is_nats and chain.shorten():
            return "they begin with a packet, and a gap or the end of the bytes follows"
        return ""

    def _kept(self, chain: Chain) -> str:
        """Why the frames before a refuted one are proven by themselves: they fill packets."""
        if not (self.is_nats and chain.frames and chain.at_packet_end):
            return ""
        return (
            "they fill packets" if self.buffer.begins_chunk(chain.start) or chain.shorten() else ""
        )

    def _candidate(self) -> int | None:
        """The next position where a frame may begin; None if there is none."""
        buffer = self.buffer
        for at in range(buffer.runs_from(self._cursor), len(buffer.runs)):
            run = buffer.runs[at]
            is_open = buffer.is_open(run)
            if run.end <= self._cursor and not is_open:
                continue
            if self._cursor <= run.start:
                if START.match(run.data):
                    return run.start
                if len(run.data) < START_BYTES and is_open:
                    return None
                self._cursor = run.start + 1
            found = CANDIDATE.search(run.data, max(0, self._cursor - 1 - run.start))
            while found and run.start + found.end() in self._visited:
                found = CANDIDATE.search(run.data, found.end())
            if found:
                return run.start + found.end()
            self._cursor = max(self._cursor, run.end - START_BYTES)
            if not is_open:
                self._cursor = run.end
        return None

    def _walk(self, chain: Chain) -> _ChainState:
        while True:
            if chain.stop:
                if chain.stop > self.buffer.end:
                    return _ChainState.WAITING
                if not self.buffer.ends_line(chain.stop):
                    return _ChainState.BROKEN
                chain.next, chain.stop = chain.stop, 0
                self._count(chain)
            state = self._step(chain)
            if state:
                return state

    def _step(self, chain: Chain) -> _ChainState | None:
        """Parses the control line at `chain.next`."""
        buffer = self.buffer
        run = buffer.run_at(chain.next)
        if run is None:
            return _ChainState.WAITING if chain.next >= buffer.end else _ChainState.CUT
        data, at = run.data, chain.next - run.start
        begun = START.match(data, at)
        if not begun:
            short = len(data) - at < START_BYTES
            return self._open_end(run, _ChainState.CUT) if short else _ChainState.BROKEN
        end = data.find(b"\n", max(at, chain.searched - run.start)) + 1
        if not end:
            chain.searched = run.end
            if run.end - chain.next >= _LINE_BYTES or not chain.readers_of(begun[0][:-1]):
                return _ChainState.BROKEN
            return self._open_end(run, _ChainState.BEGUN)
        if chain.next in self._visited or data[end - 2] != 13:
            return _ChainState.BROKEN
        if chain.next == chain.start == run.start and _REST.match(data, at, end):
            return _ChainState.BROKEN
        self._visit(chain.next)
        if chain.frames and buffer.begins_chunk(chain.next):
            chain.anchor()
        size = chain.read(bytes(data[at:end]))
        if size is None:
            return _ChainState.BROKEN
        if size:
            chain.stop = run.start + end + size
        else:
            chain.next = run.start + end
            self._count(chain)
        return None

    def _count(self, chain: Chain) -> None:
        """Counts a frame that ends at `chain.next`."""
        chain.frames += 1
        chain.at_packet_end = self.buffer.ends_chunk(chain.next)

    def _open_end(self, run: ByteRun, before_gap: _ChainState) -> _ChainState:
        return _ChainState.WAITING if self.buffer.is_open(run) else before_gap

    def _visit(self, offset: int) -> None:
        if len(self._visited) > self._visited_most:
            first = self.buffer.items[0].offset
            self._visited = {place for place in self._visited if place >= first}
            self._visited_most = max(_VISITED, 2 * len(self._visited))
        if self._visited:
            self._visited.add(offset)
        else:
            self._visited = {offset}


def answer_each_other(one: Resynchronizer | None, other: Resynchronizer | None) -> bool:
    """Whether two directions together prove at their end that they are NATS: either both have only PINGs and
    PONGs, or one has only PONGs (or only PINGs) and there is a PING (or a PONG) among the last frames of the
    other."""
    if one is None or other is None:
        return False
    for asking, answering in ((one, other), (other, one)):
        ops, answers = asking.last_ops, answering.whole_ops
        if answers == {"PONG"} and "PING" in ops or answers == {"PING"} and "PONG" in ops:
            return True
    whole = one.whole_ops, other.whole_ops
    return all(whole) and set.union(*whole) == {"PING", "PONG"}
