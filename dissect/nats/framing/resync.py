"""Finds the next place in a stream that proves to be the start of a frame: after a loss, after an error,
or where the capture began in the middle.

A candidate is a place behind a line end, or at the start of a packet, where an operation begins. From
there frames must follow each other without a break to the end of what is there, all of them right for the
sender and the kind: that refutes nearly every look-alike inside a payload, which sooner or later goes on
with something else. What is refuted stays refuted: each line is parsed once, each byte searched once, so
time is linear whatever the bytes are. The earliest candidate that is not refuted leads, since a later one
may lie in its payload.

Frames in a row are accepted as proof
- two, if they begin with a packet and end with one;
- three, if they end with a packet that is short (the sender has flushed), or with two packets in a row,
  or reach far, or if the bytes end there or a gap follows;
- where it is known that NATS is spoken, two, if they end with two packets in a row, or with one in front
  of a gap or the end; and one in front of those, if it begins with a packet: a snap length leaves no more.

While it is not known that NATS is spoken at all, what was refuted or did not suffice is kept as far as
there is room: it is looked at again when the connection has proven itself elsewhere.
"""

from __future__ import annotations

from enum import Enum, auto

from natsync.protocol import Context

from ..transport.detect import CANDIDATE, START, START_BYTES
from .contexts import ALL, FREE, NATURAL, UNSPECIFIC, reader_in
from .resync_buffer import Held, ResyncBuffer, Run

_FAR = 256 << 10
_LINE_BYTES = 1 << 20
_HELD_BYTES = 3 << 20  # of memory: a body of the default max_payload fits
_HELD_AT_LEAST = 32 << 10
_KEPT_BYTES = 32 << 10  # while it is not known whether this is NATS
_VISITED = 1 << 14


class Budget:
    """The bytes that all seekers of a capture hold. Beyond `limit_bytes` each holds only a little."""

    def __init__(self, limit_bytes: int = 64 << 20) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0


class _State(Enum):
    WAITING = auto()  # for more bytes
    CUT = auto()  # a gap swallowed the next control line
    BROKEN = auto()  # refuted


class Chain:
    """Frames in a row from `start`; `next` is where another one must begin. `contexts` are the ways to
    read all of them, `ops` their operations."""

    __slots__ = (
        "start",
        "next",
        "stop",
        "searched",
        "frames",
        "aligned",
        "at_packet_end",
        "contexts",
        "ops",
        "dotted",
    )

    def __init__(self, start: int, contexts: tuple[Context, ...]) -> None:
        self.start = start
        self.next = start
        self.stop = 0  # where the body in progress ends; 0: none is
        self.searched = start  # no line end before here
        self.frames = 0
        self.aligned = 0  # how many packets in a row ended where a frame did
        self.at_packet_end = False  # whether the last frame ends with a packet
        self.contexts = contexts
        self.ops: set[str] = set()
        self.dotted = False  # whether an account, where one is read, has a dot in it

    @property
    def specific(self) -> bool:
        """Whether this can only be NATS."""
        return bool(self.ops - UNSPECIFIC)

    def read(self, line: bytes) -> int | None:
        """The size of the body that follows a control line; None if the line does not fit the others."""
        op = line[: line.find(b" ")] if b" " in line[:START_BYTES] else line[:-2]
        natural = NATURAL.get(op)
        contexts = self.contexts
        if natural is not None:
            contexts = tuple(context for context in contexts if context in natural)
        if op in FREE:  # reads the same in every context
            found = reader_in(contexts[0]).read(line) if contexts else None
            kept, size = (contexts, found[1]) if found else ((), None)
        else:
            kept, size = self._fitting(line, contexts)
        if kept:
            self.contexts = kept
            self.ops.add(op.decode())
        return size

    def _fitting(
        self, line: bytes, contexts: tuple[Context, ...]
    ) -> tuple[tuple[Context, ...], int | None]:
        size = None
        kept = []
        for context in contexts:
            found = reader_in(context).read(line)
            if found:
                frame, size = found
                kept.append(context)
                self.dotted = self.dotted or b"." in getattr(frame, "account", b"")
        return tuple(kept), size


class Resynchronizer:
    """Takes items with `push` until it says that a start is proven; `chain` is the proof.

    `contexts` are the ways the stream may be read. `sure` says that it is known to be NATS: otherwise an
    operation that no other protocol has must be among the frames. While it is `muted` it only holds what
    comes.
    """

    def __init__(
        self, budget: Budget, contexts: tuple[Context, ...] = ALL, sure: bool = False
    ) -> None:
        self.window = ResyncBuffer()
        self.contexts = contexts
        self.sure = sure
        self.muted = False
        self.chain: Chain | None = None
        self._budget = budget
        self._charged = 0
        self._cursor = 0  # no unrefuted candidate before here
        self._visited: set[int] = set()
        self._visited_most = _VISITED

    def push(self, item: Held) -> bool:
        """Takes the next item; whether the start of a frame is proven now."""
        self.hold(item)
        if self.muted:
            return False
        proven = self._follow(False)
        self._charge(self.window.cost_bytes)
        return proven

    def hold(self, item: Held) -> None:
        """Takes the next item, and looks at nothing."""
        if not self.window.items and not self.window.runs:
            self._cursor = max(self._cursor, item.offset)
        self.window.add(item)
        self._charge(self.window.cost_bytes)

    def finish(self) -> bool:
        """No more comes: whether what is there is proof enough."""
        return not self.muted and self._follow(True)

    def trust(self) -> None:
        """Says that the stream is known to be NATS: what is held is looked at again."""
        if not self.sure:
            self.narrow(self.contexts)

    def narrow(self, contexts: tuple[Context, ...]) -> None:
        """Says that the stream is NATS, and to be read in one of these ways."""
        self.sure = True
        self.muted = False
        self.contexts = contexts
        self.chain = None
        self._visited.clear()
        self._cursor = self.window.start

    def release(self, offset: int) -> list[Held]:
        """What is held from `offset` on. The seeker is done."""
        self._charge(0)
        return self.window.rest(offset)

    def charge_anew(self, times: int = 1) -> None:
        """The budget is another one, which knows nothing of what is held here; -1 gives it back."""
        self._budget.used_bytes += times * self._charged

    def _charge(self, held: int) -> None:
        self._budget.used_bytes += held - self._charged
        self._charged = held

    def _follow(self, final: bool) -> bool:
        """Walks along the leading candidate, and the next one whenever it is refuted."""
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
            if state is not _State.BROKEN and self._is_proven(self.chain, state, final):
                return True
            if state is _State.WAITING and not final and not self._is_full():
                return False
            self.chain = None

    def _forget(self, offset: int) -> None:
        """What lies before `offset` was refuted."""
        window = self.window
        if self.sure or window.cost_bytes > self._limit(_KEPT_BYTES):
            window.drop(offset)

    def _is_full(self) -> bool:
        return self.window.cost_bytes > self._limit(_HELD_BYTES)

    def _limit(self, most: int) -> int:
        tight = self._budget.used_bytes > self._budget.limit_bytes
        return _HELD_AT_LEAST if tight else most

    def _is_proven(self, chain: Chain, state: _State, final: bool) -> bool:
        if not (self.sure or chain.specific):
            return False
        window, frames = self.window, chain.frames
        with_packet = chain.start in window.starts
        if state is _State.WAITING and chain.next == window.end and not chain.stop:
            chain.aligned += 1
            flushed = window.last < window.largest
            if frames >= 2 and (with_packet or self.sure and chain.aligned > 1):
                return True
            if frames >= 3 and (flushed or chain.aligned > 1):
                return True
        else:
            chain.aligned = 0
        ended = final or state is _State.CUT
        if frames >= 3:
            return ended or chain.next - chain.start >= _FAR or self._is_full()
        if self.sure and frames == 2 and chain.at_packet_end:
            return ended
        return ended and with_packet and frames >= (1 if self.sure else 2)

    def _candidate(self) -> int | None:
        """The next place where a frame may begin; None while there is none."""
        window = self.window
        for at in range(window.runs_from(self._cursor), len(window.runs)):
            run = window.runs[at]
            is_open = window.is_open(run)
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

    def _walk(self, chain: Chain) -> _State:
        while True:
            if chain.stop:
                if chain.stop > self.window.end:
                    return _State.WAITING
                if not self.window.ends_line(chain.stop):
                    return _State.BROKEN
                chain.next, chain.stop = chain.stop, 0
                self._count(chain)
            state = self._step(chain)
            if state:
                return state

    def _step(self, chain: Chain) -> _State | None:
        """Reads the control line at `chain.next`."""
        window = self.window
        run = window.run_at(chain.next)
        if run is None:
            return _State.WAITING if chain.next >= window.end else _State.CUT
        at = chain.next - run.start
        if not START.match(run.data, at):
            short = len(run.data) - at < START_BYTES
            return self._open_end(run) if short else _State.BROKEN
        end = run.data.find(b"\n", max(chain.next, chain.searched) - run.start) + 1
        if not end:
            chain.searched = run.end
            return self._open_end(run) if run.end - chain.next < _LINE_BYTES else _State.BROKEN
        if chain.next in self._visited or run.data[end - 2] != 13:
            return _State.BROKEN
        self._visit(chain.next)
        size = chain.read(bytes(run.data[at:end]))
        if size is None:
            return _State.BROKEN
        if size:
            chain.stop = run.start + end + size
        else:
            chain.next = run.start + end
            self._count(chain)
        return None

    def _count(self, chain: Chain) -> None:
        """Another frame ends at `chain.next`."""
        chain.frames += 1
        chain.at_packet_end = chain.next in self.window.ends

    def _open_end(self, run: Run) -> _State:
        return _State.WAITING if self.window.is_open(run) else _State.CUT

    def _visit(self, offset: int) -> None:
        if len(self._visited) > self._visited_most:
            first = self.window.items[0].offset
            self._visited = {place for place in self._visited if place >= first}
            self._visited_most = max(_VISITED, 2 * len(self._visited))
        self._visited.add(offset)
