"""The frames of a client's WebSocket, without a network: pieces, pings, the end."""

from __future__ import annotations

import os

import pytest

from natsync._engine.transport import Transport
from natsync._engine.websocket import WebSocketTransport
from natsync.protocol.websocket import (
    FrameReader,
    Opcode,
    apply_mask,
    build_frame,
    deflate,
    read_frame_head,
)


class Inner(Transport):
    """Takes `room` bytes at a time; `incoming` is what the server sends."""

    def __init__(self, room: int = 1 << 20) -> None:
        self.wants_write = False
        self.room = room
        self.sent = b""
        self.incoming: list[bytes | None] = []
        self.closed = False
        self._process = os.getpid()

    def fileno(self) -> int:
        return 5

    def read(self, size: int) -> bytes | None:
        return self.incoming.pop(0) if self.incoming else None

    def write(self, data: memoryview) -> int:
        taken, self.room = min(self.room, len(data)), self.room - min(self.room, len(data))
        self.sent += data[:taken]
        return taken

    def finish_writing(self) -> None:
        self.room = 0

    def close(self) -> None:
        self.closed = True

    def frames(self) -> list[tuple[Opcode, bytes]]:
        found, wire = [], self.sent
        while head := read_frame_head(wire):
            assert head.mask
            payload = wire[head.size : head.size + head.length]
            found.append((head.opcode, apply_mask(payload, head.mask)))
            wire = wire[head.size + head.length :]
        return found


def test_bytes_leave_in_masked_frames() -> None:
    inner = Inner()
    transport = WebSocketTransport(inner, False, b"")
    assert transport.system_calls is None and transport.fileno() == 5
    assert transport.write(memoryview(b"PING\r\n")) == 6
    assert inner.frames() == [(Opcode.BINARY, b"PING\r\n")]


def test_a_frame_that_does_not_fit_is_sent_before_the_next() -> None:
    inner = Inner(room=5)
    transport = WebSocketTransport(inner, False, b"")
    data = memoryview(b"PING\r\n")
    assert transport.write(data) == 0 and transport.wants_write
    inner.room = 3
    assert transport.read(10) is None
    assert transport.write(data) == 0
    inner.room = 100
    assert transport.read(10) is None  # which sends the rest
    assert transport.write(data) == 6
    assert inner.frames() == [(Opcode.BINARY, b"PING\r\n")]
    assert not transport.wants_write


def test_bytes_in_a_frame_that_is_sent_in_part_are_begun() -> None:
    inner = Inner(room=0)
    transport = WebSocketTransport(inner, False, b"")
    assert transport.write(memoryview(b"PING\r\n")) == transport.begun == 0
    inner.room = 1
    assert transport.read(10) is None and transport.begun == 6
    inner.room = 100
    assert transport.write(memoryview(b"PING\r\n")) == 6 and transport.begun == 0


def test_pings_are_answered_between_frames() -> None:
    inner = Inner(room=4)
    transport = WebSocketTransport(inner, False, b"")
    inner.incoming = [build_frame(Opcode.PING, b"are you there"), None, None]
    assert transport.read(10) is None and transport.wants_write
    assert transport.read(10) is None
    inner.room = 100
    assert transport.write(memoryview(b"PONG\r\n")) == 6
    assert inner.frames() == [(Opcode.PONG, b"are you there"), (Opcode.BINARY, b"PONG\r\n")]


def test_payloads_come_out_of_any_pieces() -> None:
    inner = Inner()
    wire = build_frame(Opcode.BINARY, b"INFO {}\r\n") + build_frame(Opcode.PONG, b"")
    wire += build_frame(Opcode.BINARY, deflate(b"MSG a 1 0\r\n\r\n"), b"", True)
    transport = WebSocketTransport(inner, True, wire[:12])
    assert transport.read_rest() == b"INFO {}\r\n"
    assert transport.read_rest() == b""
    inner.incoming = [wire[at : at + 1] for at in range(12, len(wire))]
    found = [transport.read(10) for _ in range(12, len(wire))]
    assert b"".join(each for each in found if each) == b"MSG a 1 0\r\n\r\n"
    assert b"" not in found


def test_a_close_frame_is_the_end() -> None:
    inner = Inner()
    inner.incoming = [build_frame(Opcode.BINARY, b"-ERR 'x'\r\n") + build_frame(Opcode.CLOSE, b"")]
    transport = WebSocketTransport(inner, False, b"")
    assert transport.read(10) == b"-ERR 'x'\r\n"
    assert transport.read(10) == b""
    transport.close()
    assert inner.frames() == [(Opcode.CLOSE, b"\x03\xe8")] and inner.closed


def test_a_forked_process_says_nothing_when_it_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Inner()
    transport = WebSocketTransport(inner, False, b"")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    transport.close()
    assert inner.closed and not inner.sent


def test_the_end_of_the_stream_and_half_a_frame_at_it() -> None:
    inner = Inner(room=3)
    inner.incoming = [b""]
    transport = WebSocketTransport(inner, False, b"")
    assert transport.read(10) == b""
    assert transport.write(memoryview(b"x" * 10)) == 0
    transport.finish_writing()
    transport.close()
    assert inner.closed and len(inner.sent) == 3


def test_bytes_that_are_no_frame() -> None:
    inner = Inner()
    inner.incoming = [b"\x83\x00"]
    with pytest.raises(OSError, match="unknown WebSocket opcode 3"):
        WebSocketTransport(inner, False, b"").read(10)


def test_large_messages_are_compressed_if_both_sides_agreed() -> None:
    inner = Inner()
    transport = WebSocketTransport(inner, True, b"")
    assert transport.write(memoryview(b"-" * 100)) == 100  # before the server's limit is known
    assert apply_mask(inner.sent[6:], inner.sent[2:6]) == b"-" * 100
    inner.sent = b""
    transport.limit(1 << 20)
    assert transport.write(memoryview(b"x" * 1000)) == 1000
    assert transport.write(memoryview(b"short")) == 5
    assert len(inner.sent) < 100
    reader = FrameReader()
    reader.feed(inner.sent)
    assert reader.read() == (Opcode.BINARY, b"x" * 1000)
    assert reader.read() == (Opcode.BINARY, b"short")
    assert reader.read() is None


def test_no_compressed_frame_holds_more_than_max_payload() -> None:
    inner = Inner()
    transport = WebSocketTransport(inner, True, b"")
    transport.limit(100)
    assert transport.write(memoryview(b"x" * 250)) == 100
    transport.limit(50)  # too little to be worth it
    assert transport.write(memoryview(b"y" * 150)) == 150
    reader = FrameReader()
    reader.feed(inner.sent)
    assert reader.read() == (Opcode.BINARY, b"x" * 100)
    assert reader.read() == (Opcode.BINARY, b"y" * 150)
    assert b"y" * 150 == apply_mask(inner.sent[-150:], inner.sent[-154:-150])
