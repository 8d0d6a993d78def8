"""One connection's bytes: see test_supervisor.py for its loss."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from natsync._engine.channel import Channel
from natsync._engine.engine import Engine, EngineEvent, Ponged
from natsync._engine.loop import Loop
from natsync._engine.outbound_buffer import OutboundBuffer, RequestBytes, SubscriptionOps
from natsync._engine.reply_mux import ReplyMux
from natsync._engine.seat import Waiter
from natsync._engine.transport import SystemCalls
from natsync._engine.waiter import Guest
from natsync.errors import ConnectionClosedError
from natsync.protocol import ConnectOptions, HMsg, Msg

from tests.support.driving import idle, nothing
from tests.support.fake_server import Background
from tests.support.interrupts import interrupted_at

INFO = b'INFO {"server_id":"N","max_payload":100,"headers":true}\r\n'


class ThinLoop(Loop):
    """Takes `room` bytes in all, and never waits; gives what it is told to."""

    def __init__(self, room: int) -> None:
        super().__init__("thin", threading.RLock())
        self.room = room
        self.wrote = b""
        self.inbound = [INFO + b"PONG\r\n"]

    def write(self, data: memoryview) -> int:
        fits = data[: self.room - len(self.wrote)]
        self.wrote += fits
        return len(fits)

    def read(self, size: int) -> bytes | None:
        return self.inbound.pop(0) if self.inbound else None

    def wait(
        self,
        until: float,
        writing: bool = False,
        reading: bool = True,
        guest: Guest | None = None,
    ) -> bool:
        return True


@dataclass
class Schedule:
    """Nothing is due, and messages are dropped."""

    full: list[str] = field(default_factory=list)
    deadline: float = float("inf")
    in_msgs: int = 0
    reply_mux: ReplyMux | None = None

    def expire(self, now: float) -> None:
        pass

    def deliver(self, sid: bytes, frames: list[Msg | HMsg]) -> None:
        pass


def linked(room: int) -> tuple[Channel, ThinLoop, OutboundBuffer, list[EngineEvent]]:
    loop, seen = ThinLoop(room), list[EngineEvent]()
    outbound = OutboundBuffer(loop, lambda done, until: None, threading.RLock(), 1000, 1.0, 1000)
    engine = Engine("h:1", lambda info: ConnectOptions(), 10.0, 2)
    channel = Channel(loop, outbound, engine, seen.append, Schedule())
    loop.close()  # it never waits
    channel.turn(0.0)
    outbound.attach()
    return channel, loop, outbound, seen


def test_what_did_not_reach_the_network_is_known_to_the_message() -> None:
    channel, loop, outbound, _ = linked(10_000)
    channel.turn(0.0)
    loop.room = len(loop.wrote) + 12
    for item in (b"0123456789", SubscriptionOps(b"SUB"), b"abcdef", RequestBytes(b"ask")):
        outbound.put(item, len(item))
    channel.turn(0.0)
    assert channel.has_unsent
    assert channel.unsent() == [SubscriptionOps(b"SUB"), b"abcdef", RequestBytes(b"ask")]
    assert channel.unconfirmed == 1
    loop.room = 20_000
    channel.turn(0.0)
    assert not channel.has_unsent and channel.unsent() == [] and channel.unconfirmed == 3


class HalfFrame(ThinLoop):
    """Takes the first write into a frame, and sends a part of that."""

    begun = 0

    def write(self, data: memoryview) -> int:
        self.begun = len(data[: self.room])
        return 0


def test_messages_in_a_frame_that_is_sent_in_part_count_as_sent() -> None:
    channel, loop, outbound, _ = linked(10_000)
    channel.turn(0.0)
    half = channel._loop = HalfFrame(room=12)
    half.inbound.clear()
    half.close()
    for item in (b"0123456789", b"abcdef", RequestBytes(b"ask")):
        outbound.put(item, len(item))
    channel.turn(0.0)
    assert channel.unsent() == [b"abcdef", RequestBytes(b"ask")]
    assert channel.unconfirmed == 1


def test_many_messages_are_followed_by_a_ping_of_our_own() -> None:
    channel, loop, outbound, _ = linked(1_000_000)
    channel.turn(0.0)

    def publish(count: int) -> bytes:
        before = len(loop.wrote)
        for _ in range(count):
            outbound.put(b"m", 1)
        channel.turn(0.0)
        return loop.wrote[before:]

    assert publish(999) == b"m" * 999
    assert publish(1) == b"mPING\r\n"
    assert publish(1000) == b"m" * 1000  # one is on its way
    loop.inbound.append(b"PONG\r\n")
    assert publish(0) == b"" and channel.unconfirmed == 1000
    assert publish(1) == b"mPING\r\n"


def test_the_end_of_the_stream_is_an_error() -> None:
    channel, loop, _, _ = linked(10_000)
    loop.inbound.append(b"")
    with pytest.raises(ConnectionClosedError, match="the server closed the connection"):
        channel.turn(0.0)
    with pytest.raises(ConnectionClosedError, match="the server closed the connection"):
        channel.turn(0.0)


def test_a_paused_link_reads_nothing() -> None:
    channel, loop, _, seen = linked(10_000)
    assert isinstance(channel._router, Schedule)
    channel._router.full.append("a subscription")
    loop.inbound.append(b"MSG a 1 0\r\n\r\n")
    before = len(seen)
    channel.turn(0.0)
    assert len(seen) == before and loop.inbound


def test_what_an_interrupt_leaves_is_neither_lost_nor_sent_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    channel, loop, outbound, _ = linked(10_000)
    channel.turn(0.0)
    for item in (b"a", RequestBytes(b"b"), b"c"):
        outbound.put(item, len(item))

    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("natsync._engine.channel.joined", interrupt)  # while it gathers
        channel.turn(0.0)
    assert (channel.busy, channel.unsent(), channel.sent, channel.unconfirmed) == (
        False,
        [b"a", RequestBytes(b"b"), b"c"],
        0,
        0,
    )
    channel, loop, outbound, _ = linked(10_000)
    channel.turn(0.0)
    outbound.put(b"a", 1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop, "write", interrupt)  # after the system call, for all we know
        channel.turn(0.0)
    assert (channel.busy, channel.unsent(), channel.sent, channel.unconfirmed) == (True, [], 1, 1)


def test_an_interrupt_while_messages_are_put_together_does_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> bytes:
        raise KeyboardInterrupt

    channel, loop, outbound, _ = linked(10_000)
    channel.turn(0.0)
    outbound.put(b"a", 1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("natsync._engine.channel.memoryview", interrupt, raising=False)
        channel.push()
    assert (channel.busy, channel.unsent(), channel.sent) == (False, [b"a"], 0)
    outbound.put(b"b", 1)
    begun = len(loop.wrote)
    channel.push()
    assert (loop.wrote[begun:], channel.sent, channel.unsent()) == (b"ab", 2, [])


def test_a_link_that_is_not_busy_knows_what_was_sent_whenever_an_interrupt_came() -> None:
    over = threading.Event()
    armed, sent, handled = False, 0, 0

    def interrupt(*_: object) -> None:
        nonlocal armed, handled
        due, armed, handled = armed, False, sent
        if due:
            raise KeyboardInterrupt

    def pester(thread: int) -> None:
        nonlocal sent
        while not over.wait(0.00005):
            if handled == sent:  # else handlers could pile up on a busy machine
                sent += 1
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
                channel, _, outbound, _ = linked(10_000)
                channel._calls = SystemCalls(near.send, near.recv_into)
                begun = channel.out_bytes
                outbound.put(data, len(data))
                try:
                    armed = True
                    channel.push()
                    armed = False
                except KeyboardInterrupt:
                    interrupted += not channel.busy
                if not channel.busy:
                    got = b""
                    while len(got) < len(data):
                        channel.push()
                        got += far.recv(1 << 20)
                    assert got == data and (channel.out_bytes - begun, channel.sent) == (
                        len(data),
                        1,
                    )
    finally:
        armed = False
        over.set()
        pest.result()
        signal.signal(signal.SIGUSR1, before)
    assert interrupted


class Replying(Schedule):
    """Passes messages to a reply mux."""

    def __init__(self) -> None:
        super().__init__()
        self.reply_mux = self.mux = ReplyMux("_INBOX", idle, partial(Waiter, idle), nothing)
        self.mux.sid = b"1"

    def deliver(self, sid: bytes, frames: list[Msg | HMsg]) -> None:
        self.in_msgs += len(frames)
        self.mux.deliver(frames)


@contextmanager
def socket_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A socket for a channel, and its far end for the test."""
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        far.settimeout(10.0)
        yield near, far


def test_a_request_that_is_interrupted_anywhere_leaves_the_connection_whole() -> None:
    step, interrupted = 0, True
    while interrupted:
        step += 1
        with socket_pair() as (near, far):
            channel, _, outbound, _ = linked(10_000)
            router = Replying()
            channel._router = router
            channel._calls = SystemCalls(near.send, near.recv_into)
            out_before, in_before = channel.out_bytes, channel.in_bytes
            (token, waiter), (_, other_waiter) = router.mux.open("a"), router.mux.open("b")
            for wire in (b"PUB a 0\r\n\r\n", b"PUB b 0\r\n\r\n"):
                outbound.put(RequestBytes(wire), len(wire))
            prefix = router.mux.wire_prefix
            replies = b"".join(
                b"MSG %b 1 1\r\n%b\r\n" % (subject, data)
                for subject, data in ((prefix + token, b"1"), (b"foreign", b"2"))
            )
            far.send(replies)
            interrupted = interrupted_at(step, lambda: channel.turn(0.0))
            assert not (channel.busy or channel.engine.is_changing)
            channel.turn(0.0)
            channel.turn(0.0)
            assert far.recv(100) == b"PUB a 0\r\n\r\nPUB b 0\r\n\r\n"
            for each, data in ((waiter, b"1"), (other_waiter, b"2")):
                frame = each.wait(0.0)
                assert frame and frame.payload == data
            assert not router.mux.waiting and router.in_msgs == 2
            assert channel.in_bytes - in_before == len(replies)
            assert (channel.out_bytes - out_before, channel.sent) == (22, 2)
    assert step > 50


def test_a_flush_that_is_interrupted_anywhere_leaves_the_connection_whole() -> None:
    step, interrupted = 0, True
    while interrupted:
        step += 1
        with socket_pair() as (near, far):
            channel, _, outbound, seen = linked(10_000)
            channel._calls = SystemCalls(near.send, near.recv_into)
            waiters: list[Waiter[bool]] = [Waiter(idle), Waiter(idle)]
            for waiter in waiters:
                outbound.flush(waiter)
            far.send(b"PONG\r\n" * 2)

            def turns() -> None:
                channel.push()
                channel.turn(0.0)

            interrupted = interrupted_at(step, turns)
            assert not (channel.busy or channel.engine.is_changing)
            turns()
            assert far.recv(100) == b"PING\r\n" * 2
            assert Ponged(waiters[0]) in seen and Ponged(waiters[1]) in seen
            assert not channel.engine.pings
    assert step > 30


def test_an_error_of_a_signal_handler_is_none_of_the_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    channel, loop, outbound, _ = linked(10_000)
    outbound.put(b"a", 1)

    def late(data: memoryview) -> int:
        raise TimeoutError("the task's time is over")

    monkeypatch.setattr(loop, "write", late)
    with pytest.raises(TimeoutError, match="task"):
        channel.turn(0.0)


def test_a_ping_that_was_not_sent_is_no_message_for_the_next_connection() -> None:
    channel, loop, outbound, _ = linked(10_000)
    channel.turn(0.0)
    loop.room = len(loop.wrote) + 3
    outbound.put(b"abc", 3)
    outbound.put(b"def", 3)
    outbound.flush(Waiter[bool](idle))
    channel.turn(0.0)
    assert channel.has_unsent and (channel.sent, channel.unconfirmed) == (1, 1)
    assert outbound.detach(channel.unsent()) == [] and outbound.items == [b"def"]
