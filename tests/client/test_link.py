"""One connection's bytes: see test_keeper.py for its loss."""

from __future__ import annotations

import signal
import socket
import threading
from dataclasses import dataclass
from functools import partial

import pytest

from natsync.engine import Engine, Event
from natsync.errors import ConnectionClosedError
from natsync.link import Link
from natsync.loop import Loop
from natsync.outbox import Ask, Interest, Outbox
from natsync.protocol import ConnectOptions

from tests.support.fake_server import Background

INFO = b'INFO {"server_id":"N","max_payload":100,"headers":true}\r\n'


class ThinLoop(Loop):
    """Takes `room` bytes in all, and never waits; gives what it is told to."""

    def __init__(self, room: int) -> None:
        super().__init__("thin", lambda: None)
        self.room = room
        self.wrote = b""
        self.inbound = [INFO + b"PONG\r\n"]

    def write(self, data: memoryview) -> int:
        fits = data[: self.room - len(self.wrote)]
        self.wrote += fits
        return len(fits)

    def read(self, size: int) -> bytes | None:
        return self.inbound.pop(0) if self.inbound else None

    def wait(self, until: float, writing: bool = False, reading: bool = True) -> bool:
        return True


@dataclass
class Schedule:
    """Nothing is due."""

    paused: bool = False
    deadline: float = float("inf")

    def expire(self, now: float) -> None:
        pass


def linked(room: int) -> tuple[Link, ThinLoop, Outbox, list[Event]]:
    loop, seen = ThinLoop(room), list[Event]()
    outbox = Outbox(loop, lambda done, until: None, 1000, 1.0, 1000)
    engine = Engine("h:1", lambda info: ConnectOptions(), 10.0, 2)
    link = Link(loop, outbox, engine, seen.extend, Schedule())
    loop.start()
    link.turn(0.0)
    outbox.arrive()
    return link, loop, outbox, seen


def test_what_did_not_reach_the_network_is_known_to_the_message() -> None:
    link, loop, outbox, _ = linked(10_000)
    link.turn(0.0)
    loop.room = len(loop.wrote) + 12
    for item in (b"0123456789", Interest(b"SUB"), b"abcdef", Ask(b"ask")):
        outbox.put(item, len(item))
    link.turn(0.0)
    assert link.is_behind
    assert link.unsent() == [Interest(b"SUB"), b"abcdef", Ask(b"ask")]
    assert link.unconfirmed == 1
    loop.room = 20_000
    link.turn(0.0)
    assert not link.is_behind and link.unsent() == [] and link.unconfirmed == 3


def test_the_end_of_the_stream_is_an_error() -> None:
    link, loop, _, _ = linked(10_000)
    loop.inbound.append(b"")
    with pytest.raises(ConnectionClosedError, match="the server closed the connection"):
        link.turn(0.0)
    assert link.busy


def test_a_paused_link_reads_nothing() -> None:
    link, loop, _, seen = linked(10_000)
    assert isinstance(link._desk, Schedule)
    link._desk.paused = True
    loop.inbound.append(b"MSG a 1 0\r\n\r\n")
    before = len(seen)
    link.turn(0.0)
    assert len(seen) == before and loop.inbound


def test_what_an_interrupt_leaves_is_neither_lost_nor_sent_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link, loop, outbox, _ = linked(10_000)
    link.turn(0.0)
    for item in (b"a", Ask(b"b"), b"c"):
        outbox.put(item, len(item))

    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(link.engine, "wants_checkpoint", interrupt)  # while it gathers
        link.turn(0.0)
    assert (link.busy, link.unsent(), link.sent, link.unconfirmed) == (
        True,
        [b"a", Ask(b"b"), b"c"],
        0,
        0,
    )
    link, loop, outbox, _ = linked(10_000)
    link.turn(0.0)
    outbox.put(b"a", 1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop, "write", interrupt)  # behind the system call, for all we know
        link.turn(0.0)
    assert (link.busy, link.unsent(), link.sent, link.unconfirmed) == (True, [], 1, 1)


def test_an_interrupt_while_messages_are_put_together_does_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> bytes:
        raise KeyboardInterrupt

    link, loop, outbox, _ = linked(10_000)
    link.turn(0.0)
    outbox.put(b"a", 1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("natsync.link._joined", interrupt)
        link.push()
    assert (link.busy, link.unsent(), link.sent) == (False, [b"a"], 0)
    outbox.put(b"b", 1)
    begun = len(loop.wrote)
    link.push()
    assert (loop.wrote[begun:], link.sent, link.unsent()) == (b"ab", 2, [])


def test_a_link_that_is_not_busy_knows_what_was_sent_whenever_an_interrupt_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    armed, over = threading.Event(), threading.Event()

    def interrupt(*_: object) -> None:
        if armed.is_set():
            armed.clear()
            raise KeyboardInterrupt

    def pester(thread: int) -> None:
        while not over.wait(0.00005):
            signal.pthread_kill(thread, signal.SIGUSR1)

    data = bytes(range(256)) * 400
    interrupted = 0
    before = signal.signal(signal.SIGUSR1, interrupt)
    pest = Background(partial(pester, threading.get_ident()))
    try:
        for _ in range(500):
            near, far = socket.socketpair()
            with near, far:
                near.setblocking(False)
                far.settimeout(10.0)
                monkeypatch.setattr(ThinLoop, "sender", near.send)
                link, _, outbox, _ = linked(10_000)
                link.push()
                begun = link.out_bytes
                assert len(far.recv(100)) == begun  # CONNECT
                outbox.put(data, len(data))
                try:
                    armed.set()
                    link.push()
                    armed.clear()
                except KeyboardInterrupt:
                    interrupted += not link.busy
                if not link.busy:
                    got = b""
                    while len(got) < len(data):
                        link.push()
                        got += far.recv(1 << 20)
                    assert got == data and (link.out_bytes - begun, link.sent) == (len(data), 1)
    finally:
        armed.clear()
        over.set()
        pest.result()
        signal.signal(signal.SIGUSR1, before)
    assert interrupted


def test_an_error_of_a_signal_handler_is_none_of_the_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link, loop, outbox, _ = linked(10_000)
    outbox.put(b"a", 1)

    def late(data: memoryview) -> int:
        raise TimeoutError("the task's time is over")

    monkeypatch.setattr(loop, "write", late)
    with pytest.raises(TimeoutError, match="task"):
        link.turn(0.0)
