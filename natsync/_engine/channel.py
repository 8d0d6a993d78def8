"""One connection to one server: the engine's conversation, on the loop's transport.

For who drives. It moves bytes both ways, hands the engine's events to `act`, and knows at any time what
was handed over and did not reach the network, and how many messages the server has not confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from time import monotonic
from typing import Protocol

from ..errors import ConnectionClosedError, Error
from .engine import Engine, EngineEvent
from .loop import Guest, Loop
from .outbound_buffer import (
    Chunks,
    Flush,
    Item,
    OutboundBuffer,
    RequestBytes,
    SubscriptionOps,
    length,
)

__all__ = ["Channel"]

_MESSAGES = {bytes, RequestBytes, Chunks}
_NOTHING = memoryview(b"")
# For one read: usually, and where much comes. Memory for more would come from the system each time.
_ROOM, _MOST_ROOM = 64 << 10, 1 << 20


class Schedule(Protocol):
    """When reading has to wait, and when else there is something to do."""

    @property
    def paused(self) -> bool: ...
    @property
    def deadline(self) -> float: ...
    def expire(self, now: float) -> None: ...


class Channel:
    """`busy` is true while a turn does more than wait: an exception from outside, such as an interrupt,
    leaves it true, and then nobody knows what was done. Nothing is sent twice then, and nothing forgotten:
    what may have been sent counts as not confirmed.
    """

    def __init__(
        self,
        loop: Loop,
        outbound: OutboundBuffer,
        engine: Engine,
        act: Callable[[list[EngineEvent]], None],
        router: Schedule,
    ) -> None:
        self.engine = engine
        self.busy = False
        self.is_counted = False  # among those that are gone
        self.in_bytes = 0
        self.out_bytes = 0
        self._loop = loop
        self._outbound = outbound
        self._act = act
        self._router = router
        self._parts: list[Item] = []  # of what is being sent
        self._unsent = _NOTHING
        self._sending = False  # bytes of `_unsent` may be on their way
        self._taken: list[Item] = []  # while they are being gathered
        self._sent_before = 0  # messages, that is
        self._flushes: list[Item] = []  # that were not sent at the end
        self._room = _ROOM  # for what the next read brings
        self._more = False  # whether the last read left something for sure

    def begin(self, data: bytes) -> None:
        """Acts on what came with the making of the transport."""
        if data:
            self.in_bytes += len(data)
            self._act(self.engine.receive(data, monotonic()))

    def push(self) -> None:
        """Sends what there is, as far as it goes now."""
        if not self._has_work:
            return
        self.busy = True
        self._write()
        self.busy = False

    def turn(self, until: float, guest: Guest | None = None) -> None:
        """One round, behind a `push`: waits for more to do, reads, acts on it, and sends what there is."""
        paused = self._router.paused
        # What comes to be due later than now has its own look, or wakes who drives.
        due = self.deadline
        until = 0.0 if self._more and not paused else min(until, due)
        ready = self._loop.wait(until, bool(self._unsent), not paused, guest)
        if guest is not None and guest.evicted:
            return
        self.busy = True
        if ready and not paused:
            self._read()
        else:
            self._more = False
        now = monotonic()
        if now >= due:
            events = self.engine.tick(now)
            if events:
                self._act(events)
            self._router.expire(now)
        if self._has_work:
            self._write()
        self.busy = False

    def retire(self, until: float) -> None:
        """Sends what there is, and waits for the server to have read it, or the time `until`: the end of a
        connection that an exception has left in the middle of reading, so that nobody understands its
        input any more. To be closed at once would cost what is still in the network (RFC 1122, 4.2.2.13).
        """
        if self._sending:
            return
        try:
            if self._taken:
                taken, self._taken = self._taken, []
                self.engine.sent = self._sent_before
                self._begin_last(taken)
            self._outlast(until)
            self._begin_last(self._outbound.take_all())
            self._outlast(until)
            self._loop.finish_writing()
            while (data := self._loop.read(_ROOM)) != b"":
                if monotonic() >= until:
                    return
                if data is None:
                    self._loop.wait(until)
            self.engine.confirmed = self.engine.sent
        except OSError:
            pass  # nobody knows then

    def _begin_last(self, items: list[Item]) -> None:
        """Begins to send all of `items` but flushes, which nobody would answer."""
        self._flushes += [item for item in items if isinstance(item, Flush)]
        self._parts = [item for item in items if not isinstance(item, Flush)]
        self.engine.sent += sum(not isinstance(item, SubscriptionOps) for item in self._parts)
        self._unsent = memoryview(_joined(self._parts, True))

    def _outlast(self, until: float) -> None:
        """Sends what is left over, as long as that takes."""
        while not self._send():
            if monotonic() >= until:
                raise TimeoutError
            self._loop.wait(until, writing=True, reading=False)

    @property
    def _has_work(self) -> bool:
        return bool(self._unsent or self._taken or self.engine.has_output or self._outbound.waiting)

    @property
    def deadline(self) -> float:
        """When there is something to do, whatever comes."""
        mine, other = self.engine.deadline, self._router.deadline
        return mine if mine < other else other

    @property
    def is_behind(self) -> bool:
        """Whether the network did not take all there was to send."""
        return bool(self._unsent)

    def look_out(self) -> None:
        """Makes who waits without looking wait for the right things."""
        # Who sees to everything soon needs no word that the network has room.
        self._loop.watch(bool(self._unsent) and not self._loop.aloof, not self._router.paused)

    @property
    def unconfirmed(self) -> int:
        """Messages that went out, and of which the server has not said that it has them."""
        return self.sent - self.engine.confirmed

    @property
    def sent(self) -> int:
        """Messages that went out."""
        if self._taken:
            return self._sent_before
        return self.engine.sent - sum(
            not isinstance(part, SubscriptionOps) for part in self._left()
        )

    def unsent(self) -> Sequence[Item]:
        """What did not reach the network as a whole: no server has made anything of it."""
        return [*(self._taken or [*self._left()][::-1]), *self._flushes]

    def _left(self) -> Iterator[Item]:
        """The parts that are not sent, the last one first."""
        left = 0 if self._sending else self._unsent.nbytes
        for part in reversed(self._parts):
            if left <= 0:
                return
            left -= length(part)
            yield part

    def _gather(self) -> None:
        """Takes what is to be sent next: of the engine, and what other threads left."""
        engine = self.engine
        if not self._taken:  # else an interrupt has kept it from what follows
            self._sent_before = engine.sent
        parts: list[Item] = []
        own = engine.take()
        if own:
            parts.append(SubscriptionOps(own))
        kinds: set[type] = set()
        if engine.is_open:
            items = self._outbound.take_all(self._taken)
            kinds = set(map(type, items))
            if kinds <= _MESSAGES and not (own or engine.wants_checkpoint(len(items))):
                self._gather_messages(items, Chunks in kinds)
                return
            for item in items:
                if isinstance(item, Flush):
                    engine.ping(item.token)
                    parts.append(SubscriptionOps(engine.take()))
                else:
                    parts.append(item)
                    if item.__class__ is not SubscriptionOps:
                        engine.sent += 1
            if engine.wants_checkpoint():
                engine.checkpoint()
                parts.append(SubscriptionOps(engine.take()))
        self._parts = parts
        self._unsent = memoryview(_joined(parts, Chunks in kinds))
        self._taken = []

    def _gather_messages(self, items: list[Item], in_pieces: bool) -> None:
        """The hot path. As in `_send_exactly` an interrupt does no harm: all is done at once, and up to
        then `items` stay taken."""
        self.busy = False
        unsent = memoryview(_joined(items, in_pieces))
        count = len(items)
        self.engine.sent += count
        self._parts = items
        self._unsent = unsent
        self._taken = []
        self.busy = True

    def _write(self) -> None:
        """Sends what is left over, then what has come since, as far as it goes now."""
        try:
            if not self._unsent or self._send():
                self._gather()
                self._send()
        except OSError as error:
            if error.errno is None:
                raise  # not the system's: what a signal handler raised, as programs do to limit time
            self._sending, self.busy = False, True
            while self._read():  # the server may have said why
                pass
            raise self._hung_up(error) from error

    def _send(self) -> bool:
        """Sends what is left over, as far as it goes now; whether that was all."""
        sender = self._loop.sender
        while self._unsent:
            if not (self._send_exactly(sender) if sender else self._send_some()):
                return False
        self._unsent = _NOTHING  # and not an empty view of much
        return True

    def _send_exactly(self, sender: Callable[[memoryview], int]) -> bool:
        """Whether anything was taken. An interrupt does no harm here, and it mostly comes here, while
        much is published: from inside the system's call up to the count there is nothing at which Python
        looks for signals, as it does behind every call."""
        self.busy = False
        try:
            for sent in map(sender, (self._unsent,)):
                self._unsent = self._unsent[sent:]
                self.out_bytes += sent
        except (BlockingIOError, InterruptedError):
            self.busy = True
            return False
        self.busy = True
        return True

    def _send_some(self) -> bool:
        self._sending = True
        sent = self._loop.write(self._unsent)
        if sent:
            self._unsent = self._unsent[sent:]
            self.out_bytes += sent
        self._sending = False
        return bool(sent)

    def _read(self) -> bool:
        """Reads once; whether anything was there. The end of the stream is an error."""
        try:
            data = self._loop.read(self._room)
        except OSError as error:
            if error.errno is None:
                raise  # as above
            raise self._hung_up(error) from error
        if data is None:
            self._more = False
            return False
        if not data:
            raise self._hung_up(None)
        size = len(data)
        self._more = size >= self._room
        if self._more and size < _MOST_ROOM:
            self._room *= 4
        elif size < self._room // 4:
            self._room = _ROOM
        self.in_bytes += size
        self._act(self.engine.receive(data, monotonic()))
        return True

    def _hung_up(self, error: OSError | None) -> Error:
        """Why the server is gone: the last thing it said, or else what the system says."""
        reason = error.strerror if error and error.strerror else "the server closed the connection"
        return self.engine.reason or ConnectionClosedError(reason)


def _joined(parts: Sequence[Item], in_pieces: bool) -> bytes:
    """All bytes in a row, which makes a single call of the system of them: one for each piece takes longer
    than the copy."""
    if in_pieces:
        whole = [part if isinstance(part, Chunks) else (part,) for part in parts]
        return b"".join(chain.from_iterable(whole))  # type: ignore[arg-type]  # no Flush is among them
    if len(parts) == 1:
        return parts[0]  # type: ignore[return-value]  # neither Flush nor Chunks
    return b"".join(parts)  # type: ignore[arg-type]  # neither Flush nor Chunks
