"""What the proxy of the tests can do to a connection: `Link`, with a `Stream` for each direction.

Offsets count the bytes of one direction from 0. A command has taken effect when it returns, for all
bytes that the proxy takes from then on.
"""

from __future__ import annotations

import selectors
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import monotonic

CHUNK = 64 << 10
MOST_HELD = 16 << 20
"""Bytes held in one direction from which nothing more is read: the sender then waits for the receiver."""

NEVER = float("inf")

Command = Callable[[], AbstractContextManager[None]]
"""Taken around changes: keeps the proxy's thread out, then waits until it has acted upon them."""


class Stream:
    """One direction of a link."""

    def __init__(self, link: Link, source: socket.socket, target: socket.socket) -> None:
        self.taken = 0
        """Bytes read from who sends them."""
        self.passed = 0
        """Bytes handed to who is to have them."""
        self.dropped = 0
        """Bytes swallowed, or lost in a cut."""
        self.recorded = bytearray()
        """What was passed since `record`."""
        self.ended = False
        """The sender has said that nothing more comes, or is gone."""

        self._link = link
        self._source = source
        self._target = target
        self._held: deque[tuple[float, memoryview]] = deque()  # when it may go on, and what
        self._recording = False
        self._full = False  # the target takes no more now
        self._sent_end = False
        self._not_before = 0.0
        self._corruptions: dict[int, int] = {}
        self._cut_at: tuple[int, bool] | None = None
        self._resume()

    @property
    def held(self) -> int:
        """Bytes taken, and neither passed nor dropped yet."""
        return self.taken - self.passed - self.dropped

    def stall(self, *, reading: bool = True) -> None:
        """Passes nothing on. With `reading` the bytes are kept; without, the sender's buffers fill up."""
        with self._link.command():
            self._stalled = True
            self._reading = reading

    def swallow(self) -> None:
        """Drops what comes from now on, the end of the stream too."""
        with self._link.command():
            self._swallowing = True

    def trickle(self, size: int, pause: float = 0.0) -> None:
        """Passes on `size` bytes at a time, and pauses so many seconds between.

        Without a pause the receiver may still find several pieces together.
        """
        with self._link.command():
            self._size, self._pause = size, pause

    def delay(self, seconds: float) -> None:
        """Passes on everything so much later."""
        with self._link.command():
            self._delay = seconds

    def resume(self) -> None:
        """Ends stall, swallow, trickle and delay; what was kept is passed on."""
        with self._link.command():
            self._resume()

    def corrupt(self, offset: int, mask: int = 0xFF) -> None:
        """Changes the byte at that offset, which has not passed yet, by XOR with `mask`."""
        with self._link.command():
            assert offset >= self.passed, "that byte has passed already"
            self._corruptions[offset] = mask

    def cut_at(self, offset: int, *, reset: bool = False) -> None:
        """Cuts the link when exactly `offset` bytes have passed; a reset may destroy some on arrival."""
        with self._link.command():
            assert offset >= self.passed, "that byte has passed already"
            self._cut_at = offset, reset

    def record(self) -> None:
        """Keeps what is passed on from now in `recorded`."""
        with self._link.command():
            self._recording = True

    # From here on: the proxy's thread.

    def _resume(self) -> None:
        self._stalled = self._swallowing = False
        self._reading = True
        self._size, self._pause, self._delay = CHUNK, 0.0, 0.0
        self._held = deque((0.0, data) for _, data in self._held)
        self._not_before = 0.0

    def _wants_read(self) -> bool:
        return self._reading and not self.ended and self.held < MOST_HELD

    def _wants_write(self) -> bool:
        return self._full and not self._stalled

    def _take(self) -> None:
        try:
            data = self._source.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self._link.cut_now(reset=True)
            return
        self.ended = not data
        self.taken += len(data)
        if self._swallowing:
            self.dropped += len(data)
        elif data:
            self._held.append((monotonic() + self._delay, memoryview(data)))

    def _pass(self) -> None:
        """Hands on what may go now."""
        while not self._link.cut_off:
            if self._cut_at and self.passed >= self._cut_at[0]:
                self._link.cut_now(reset=self._cut_at[1])
            elif self._full or self._next_time() > monotonic():
                break
            else:
                self._send()
        if self.ended and not self._held and not (self._stalled or self._swallowing):
            self._tell_end()

    def _next_time(self) -> float:
        """When there is something to send, if the target takes it."""
        if self._stalled or self._full or not self._held:
            return NEVER
        return max(self._held[0][0], self._not_before)

    def _send(self) -> None:
        due, data = self._held.popleft()
        size = self._size if not self._cut_at else min(self._size, self._cut_at[0] - self.passed)
        piece = bytearray(data[:size])
        for offset, mask in self._corruptions.items():
            if self.passed <= offset < self.passed + len(piece):
                piece[offset - self.passed] ^= mask
        try:
            sent = self._target.send(piece)
        except BlockingIOError:
            sent = 0
            self._full = True
        except OSError:
            self._held.appendleft((due, data))
            self._link.cut_now(reset=True)
            return
        if sent < len(data):
            self._held.appendleft((due, data[sent:]))
        self.passed += sent
        if self._recording:
            self.recorded += piece[:sent]
        if self._pause and sent:
            self._not_before = monotonic() + self._pause

    def _drop(self) -> None:
        self.dropped += self.held
        self._held.clear()
        self._swallowing, self._stalled, self._reading = True, False, True

    def _tell_end(self) -> None:
        if not self._sent_end:
            self._sent_end = True
            try:
                self._target.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it is gone already


class Link:
    """One connection through the proxy."""

    def __init__(self, command: Command, client: socket.socket, server: socket.socket) -> None:
        self.command = command
        self.cut_off = False
        """By command, or because one side was gone; not because both have ended in peace."""
        self.closed = False

        self.ends = client, server
        self.to_server = Stream(self, client, server)
        self.to_client = Stream(self, server, client)
        for end in self.ends:
            end.setblocking(False)

    def cut(self, *, reset: bool = False) -> None:
        """Ends the connection for both sides, with FIN or RST; what the proxy holds is lost."""
        with self.command():
            self.cut_now(reset)

    # From here on: the proxy's thread, or its lock held.

    def cut_now(self, reset: bool) -> None:
        """After FIN it goes on reading and dropping: closing with bytes unread would make it a RST."""
        self.cut_off = True
        for stream in (self.to_server, self.to_client):
            stream._drop()
            if reset:
                stream.ended = True
            elif not self.closed:
                stream._tell_end()
        if reset and not self.closed:
            for end in self.ends:
                abort_on_close(end)

    def turn(self) -> float:
        """Does what can be done now; returns when there will be more to do, of its own accord."""
        for stream in (self.to_server, self.to_client):
            stream._pass()
        streams = (self.to_server, self.to_client)
        if all(stream.ended if self.cut_off else stream._sent_end for stream in streams):
            self.closed = True
        return min(stream._next_time() for stream in streams)

    def events(self, end: socket.socket) -> int:
        """What that socket is to be waited for."""
        taking, giving = self._of(end)
        reading = selectors.EVENT_READ if taking._wants_read() else 0
        return reading | (selectors.EVENT_WRITE if giving._wants_write() else 0)

    def ready(self, end: socket.socket, events: int) -> None:
        taking, giving = self._of(end)
        if events & selectors.EVENT_WRITE:
            giving._full = False
        if events & selectors.EVENT_READ and taking._wants_read():
            taking._take()

    def _of(self, end: socket.socket) -> tuple[Stream, Stream]:
        """The streams that come out of that socket, and go into it."""
        if end is self.ends[0]:
            return self.to_server, self.to_client
        return self.to_client, self.to_server


def abort_on_close(end: socket.socket) -> None:
    """Makes `close` send RST."""
    if end.family != getattr(socket, "AF_UNIX", None):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
