"""One connection to one server: the engine's conversation over the loop's transport.

Only the driver calls it. It moves bytes in both directions, passes the engine's events to `act`, and
always knows which items have not reached the network and how many messages the server has not
confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from ..errors import ConnectionClosedError, Error
from .engine import KEEP_ALIVE, OPEN, PING, Delivery, Engine, EngineEvent, Ponged
from .loop import ROOM, Loop
from .outbound_buffer import (
    Chunks,
    Flush,
    Item,
    OutboundBuffer,
    RequestBytes,
    RequestChunks,
    SubscriptionOps,
    joined,
    length,
)
from .poller import READABLE
from .transport import SystemCalls
from .waiter import Guest

if TYPE_CHECKING:
    from .router import Router

__all__ = ["Channel"]

_IN_PIECES = {Chunks, RequestChunks}
_WHOLE = {bytes, RequestBytes}
_MESSAGES = _WHOLE | _IN_PIECES
_NOTHING = memoryview(b"")
_PING = SubscriptionOps(PING)  # never sent on another connection, whose PONGs it would shift
_LESS_ROOM = 64 << 10  # bytes of one read with TLS, which gives at most a record, or over WebSocket
_CHECKPOINT = 1000
"""After this many unconfirmed messages a PING follows, so that a lost connection leaves about this many
unconfirmed. A publish takes the same CPU time with 100 or a million (CPython 3.11)."""


class Channel:
    """Reads nothing while `router.full` has entries.

    An exception from outside, such as an interrupt, may come anywhere in a turn. If `busy` is false then,
    the next turn repeats the interrupted step from its beginning: gathering items to send, decoding input,
    or passing on replies (while `router.reply_mux.is_repeatable`). If `busy` is true, nobody knows how far
    the turn got, and the connection has to end. That is so while other messages are passed on, while a TLS
    or WebSocket transport reads or writes, and in the middle of a frame. Even then nothing is sent twice
    or forgotten: messages that may have been sent count as unconfirmed.

    Each step ends with assignments that have no call between them: Python checks for signals only after
    calls, at function entry, and at the end of loop iterations (CPython 3.10 to 3.14).
    """

    def __init__(
        self,
        loop: Loop,
        outbound: OutboundBuffer,
        engine: Engine,
        act: Callable[[EngineEvent], None],
        router: Router,
    ) -> None:
        self.engine = engine
        self.is_counted = False  # whether the sums of past channels include it
        self.in_bytes = 0
        self.out_bytes = 0
        self._loop = loop
        self._outbound = outbound
        self._act = act
        self._router = router
        self._parts: list[Item] = []  # the items that are being sent
        self._unsent = _NOTHING
        self._sending = False  # some bytes of `_unsent` may have been sent
        self._begun = 0  # the bytes of `_unsent` that the server may have processed
        self._taken: list[Item] = []  # items that are being gathered
        self.busy = False  # see above; `engine.is_changing` means the same
        # Input that was read and not passed on yet: the bytes, or their number in the loop's buffer.
        self._arrived: bytes | int | None = None
        self._before: tuple[int, int] | None = None  # the counts before the input being decoded
        self._flushes: list[Item] = []  # flushes that `retire` did not send
        self._more = False  # whether the last read was full, so that more bytes may wait
        self._calls: SystemCalls | None = None  # None with TLS or WebSocket, and before `open`

    def begin(self, data: bytes) -> None:
        """Handles the bytes that arrived while the transport was being made."""
        if data:
            self._arrived = data
            self._take_in()

    def open(self) -> None:
        """Notes that the handshake is done: the transport does not change any more."""
        if transport := self._loop.transport:
            self._calls = transport.system_calls

    def push(self) -> bool:
        """Sends as much as the network takes now. Returns False, and sends nothing, if an exception has
        left the connection in an unknown state."""
        if self.busy or self.engine.is_changing:
            return False
        if self._unsent or self._outbound.items or self.engine.out or self._taken:
            self._write()
        return True

    def turn(self, until: float, guest: Guest | None = None) -> None:
        """Does one round after a `push`: waits for something to do, reads, handles the input, and sends."""
        paused = bool(self._router.full)
        # A thread that adds a deadline after this line wakes the driver.
        due = self.deadline
        if not paused and (self._more or self._arrived is not None):
            until = 0.0
        elif due < until:
            until = due
        ready = self._loop.wait(until, bool(self._unsent), not paused, guest)
        if guest is not None and guest.evicted:
            return
        if not paused and (ready or self._arrived is not None):
            self._read()
        else:
            self._more = False
        now = monotonic()
        if now >= due:
            self.busy = True
            self._pass_on(self.engine.tick(now))
            self._router.expire(now)
            self.busy = False
        self.push()

    def retire(self, until: float) -> None:
        """Sends everything, and waits until the server has read it or the time is `until`. Used at the end
        of a connection that an exception has interrupted in the middle of reading, so that its input can
        no longer be decoded. Closing it at once would lose data that is still in the network (RFC 1122,
        4.2.2.13)."""
        if self._sending:
            return
        try:
            if self._taken:
                taken, self._taken = self._taken, []
                self._begin_last(taken)
            self._outlast(until)
            self._begin_last(self._outbound.take_all())
            self._outlast(until)
            self._loop.finish_writing()
            while (data := self._loop.read(_LESS_ROOM)) != b"":
                if monotonic() >= until:
                    return
                if data is None:
                    self._loop.wait(until)
            self.engine.confirmed = self.engine.sent
        except OSError:
            pass  # it stays unknown how much the server has read

    def _begin_last(self, items: list[Item]) -> None:
        """Begins to send all `items` except flushes, which would get no answer."""
        self._flushes += [item for item in items if isinstance(item, Flush)]
        self._parts = [item for item in items if not isinstance(item, Flush)]
        self.engine.sent += sum(not isinstance(item, SubscriptionOps) for item in self._parts)
        self._unsent = memoryview(joined(self._parts, True))

    def _outlast(self, until: float) -> None:
        """Sends the rest; raises TimeoutError at the time `until`."""
        while not self._send():
            if monotonic() >= until:
                raise TimeoutError
            self._loop.wait(until, writing=True, reading=False)

    @property
    def deadline(self) -> float:
        """The time at which there is something to do even if nothing arrives."""
        mine, router = self.engine.deadline, self._router
        if router.reply_mux is None or not router.reply_mux.is_timed:  # in most programs
            return mine
        other = router.deadline
        return mine if mine < other else other

    @property
    def has_unsent(self) -> bool:
        """Whether the network has not taken everything yet."""
        return bool(self._unsent)

    @property
    def is_written(self) -> bool:
        """Whether the network has everything. For any thread: it looks at the places in the order in which an
        item passes through them."""
        return not (self._outbound.items or self._taken or self._unsent)

    @property
    def is_torn(self) -> bool:
        """Whether an exception has left the connection in an unknown state."""
        return self.busy or self.engine.is_changing

    def leaves_work(self, until: float) -> bool:
        """Called by a guest that leaves. Registers the events for which the I/O thread, parked until the time
        `until`, has to wait; returns whether that thread has something to do earlier."""
        loop, unsent, full = self._loop, bool(self._unsent), self._router.full
        if unsent or full or loop.mask != READABLE or not self._calls:  # else it is watched already
            # On standby, the I/O thread looks soon anyway, and need not be told that the network has room.
            loop.watch(unsent and not loop.standby, not full)
        return bool(self._outbound.items) and not unsent or self.deadline < until

    @property
    def unconfirmed(self) -> int:
        """The number of messages that were sent and that the server has not confirmed."""
        return self.sent - self.engine.confirmed

    @property
    def sent(self) -> int:
        """The number of messages that were sent."""
        if self._taken:
            return self.engine.sent
        return self.engine.sent - sum(
            not isinstance(part, SubscriptionOps) for part in self._left()
        )

    def unsent(self) -> Sequence[Item]:
        """Returns the items that did not reach the network completely, so that no server has processed
        them."""
        return [*(self._taken or [*self._left()][::-1]), *self._flushes]

    def _left(self) -> Iterator[Item]:
        """Yields the parts that are not completely sent, the last one first."""
        left = 0 if self._sending else self._unsent.nbytes - self._begun
        for part in reversed(self._parts):
            if left <= 0:
                return
            left -= length(part)
            yield part

    def _gather(self) -> None:
        """Collects what is to be sent next, from the engine and from other threads."""
        engine = self.engine
        items = self._outbound.take_all(self._taken) if engine.phase is OPEN else []
        sent = engine.sent + 1
        alone = len(items) == 1 and items[0].__class__ in _WHOLE and not engine.out
        if not alone or sent - engine.confirmed >= _CHECKPOINT:
            self._gather_all(items)
            return
        # A single message, as from a caller that waits for its reply.
        unsent = memoryview(items[0])  # type: ignore[arg-type]  # see `_WHOLE`
        # No calls from here on.
        engine.sent = sent
        self._parts = items
        self._unsent = unsent
        self._taken = []

    def _gather_all(self, items: list[Item]) -> None:
        """Collects `items` after what the engine has to send."""
        engine = self.engine
        own = engine.out[:]
        parts: list[Item] = [SubscriptionOps(b"".join(own))] if own else []
        pings: list[tuple[object, int]] = []
        sent, kinds = engine.sent, set(map(type, items))
        in_pieces = not kinds.isdisjoint(_IN_PIECES)
        if kinds <= _MESSAGES:  # nearly always
            sent += len(items)
            parts += items
        else:
            for item in items:
                if isinstance(item, Flush):
                    pings.append((item.token, sent))
                    parts.append(_PING)
                else:
                    parts.append(item)
                    sent += item.__class__ is not SubscriptionOps
        if items and sent - engine.confirmed >= _CHECKPOINT and not (pings or engine.pings):
            pings.append((KEEP_ALIVE, sent))
            parts.append(_PING)
        unsent = memoryview(joined(parts, in_pieces))
        count = len(own)
        # No calls from here on.
        del engine.out[:count]
        engine.pongs = 0
        engine.pings += pings
        engine.sent = sent
        self._parts = parts
        self._unsent = unsent
        self._taken = []

    def _write(self) -> None:
        """Sends the rest of the last write, then the items added since, as far as the network takes them
        now."""
        try:
            if not self._unsent or self._send():
                self._gather()
                self._send()
        except OSError as error:
            if error.errno is None:
                raise  # not from the system: a signal handler raised it, as programs do for time limits
            self._sending, self.busy = False, True
            while self._read():  # -ERR may say why
                pass
            raise self._hung_up(error) from error

    def _send(self) -> bool:
        """Sends the rest of the last write; returns whether the network has taken everything."""
        sender = self._calls.send if self._calls else None
        while self._unsent:
            if sender is None:
                if not self._send_some():
                    return False
                continue
            try:
                # `map` makes the system call from C, so that no interrupt comes between it and the count.
                for sent in map(sender, (self._unsent,)):
                    self._unsent = self._unsent[sent:]
                    self.out_bytes += sent
            except (BlockingIOError, InterruptedError):
                return False
        self._unsent = _NOTHING  # an empty view would keep a large object alive
        return True

    def _send_some(self) -> bool:
        self._sending = self.busy = True
        sent = self._loop.write(self._unsent)
        self._begun = self._loop.begun
        if sent:
            self._unsent = self._unsent[sent:]
            self.out_bytes += sent
        self._sending = self.busy = False
        return bool(sent)

    def _read(self) -> bool:
        """Reads once; returns whether there was anything to read. Raises at the end of the stream."""
        if self._arrived is None:  # else an interrupt has cut the last call short
            try:
                # As in `_send`: no interrupt comes between the system call and the assignment.
                if self._calls:
                    with self._loop.buffer.getbuffer() as room:
                        for self._arrived in map(self._calls.recv_into, (room,), (ROOM,)):
                            pass
                else:
                    self.busy = True
                    self._arrived = self._loop.read(_LESS_ROOM)
                    self.busy = False
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as error:
                if error.errno is None:
                    raise  # as above
                raise self._hung_up(error) from error
        if self._arrived is None:
            self._more = False
            return False
        if not self._arrived:
            raise self._hung_up(None)
        self._take_in()
        return True

    def _take_in(self) -> None:
        """Decodes what has arrived, and passes it on. After an interrupt in a repeatable step, the next turn
        calls it again."""
        engine, data = self.engine, self._arrived
        assert data
        if self._before is None:
            if engine.offset != self.in_bytes:  # in the middle of a frame
                self.busy = True
            self._before = self.in_bytes, self._router.in_msgs
        else:
            self.in_bytes, self._router.in_msgs = self._before
            engine.rewind(self.in_bytes)
        if isinstance(data, bytes):
            self.in_bytes += len(data)
            self._more = len(data) >= _LESS_ROOM
            events = engine.receive(data, monotonic())
        else:
            self.in_bytes += data
            self._more = data == ROOM
            events = engine.receive_from(self._loop.buffer, data, monotonic())
        self._pass_on(events)
        # No calls from here on.
        del engine.pings[: engine.answered]
        engine.answered = 0
        self._before = self._arrived = None
        self.busy = engine.is_changing = False

    def _pass_on(self, events: list[EngineEvent]) -> None:
        router = self._router
        for event in events:
            if event.__class__ is Delivery:  # nearly always
                mux = router.reply_mux
                if mux is None or event.sid != mux.sid:
                    self.busy = True
                    router.deliver(event.sid, event.frames)
                else:
                    if not mux.is_repeatable:
                        self.busy = True
                    router.in_msgs += len(event.frames)
                    mux.deliver(event.frames)
            else:
                if event.__class__ is not Ponged:  # a waiter takes only its first answer
                    self.busy = True
                self._act(event)

    def _hung_up(self, error: OSError | None) -> Error:
        """Returns why the server is gone: its last -ERR, or else the system's reason."""
        reason = error.strerror if error and error.strerror else "the server closed the connection"
        return self.engine.reason or ConnectionClosedError(reason)
