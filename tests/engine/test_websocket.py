"""The upgrade and the frames of a client's WebSocket, without a network: pieces, refusals, pings, the end."""

from __future__ import annotations

import os
import re
from enum import Enum

import pytest

from natsync._engine.transport import Transport
from natsync._engine.websocket import MOST_HEAD_BYTES, Upgrade, WebSocketTransport
from natsync.protocol.websocket import (
    FrameReader,
    Opcode,
    accept_key,
    apply_mask,
    build_frame,
    deflate,
    read_frame_head,
)


def upgrade(compresses: bool = False) -> tuple[Upgrade, bytes]:
    """A request, and the answer that a server gives."""
    made = Upgrade("example:80", "/nats?a=b", {"X-Team": "shop"}, compresses)
    found = re.search(rb"Sec-WebSocket-Key: (\S+)\r\n", made.request)
    assert found
    accept = accept_key(found[1].decode())
    return (
        made,
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n\r\n"
        ).encode(),
    )


def test_the_request_has_the_path_and_the_programs_headers() -> None:
    made, _ = upgrade(compresses=True)
    lines = made.request.decode().split("\r\n")
    assert lines[:3] == ["GET /nats?a=b HTTP/1.1", "Host: example:80", "Upgrade: websocket"]
    assert "X-Team: shop" in lines and lines[-2:] == ["", ""]
    assert any("permessage-deflate; server_no_context_takeover" in line for line in lines)


def test_a_host_of_the_program_replaces_that_of_the_url() -> None:
    lines = Upgrade("10.0.0.1:80", "/", {"HOST": "nats.example", "A": "b"}, False).request.split(
        b"\r\n"
    )
    assert [line for line in lines if line.lower().startswith(b"host")] == [b"Host: nats.example"]
    assert b"A: b" in lines


def test_headers_from_an_enum_stand_for_their_values() -> None:
    class Field(str, Enum):
        HOST = "Host"
        TEAM = "X-Team"
        SHOP = "shop"

    headers = {Field.HOST: Field.SHOP, Field.TEAM: Field.SHOP}
    lines = Upgrade("10.0.0.1:80", "/", headers, False).request.split(b"\r\n")
    assert b"Host: shop" in lines and b"X-Team: shop" in lines


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_answer_may_come_in_pieces(size: int) -> None:
    made, answer = upgrade()
    wire = answer + b"\x82\x04INFO"
    rests = [made.feed(wire[at : at + size]) for at in range(0, len(answer), size)]
    assert rests[:-1] == [None] * (len(rests) - 1)
    assert rests[-1] is not None and (b"\x82\x04INFO").startswith(rests[-1])
    assert not made.compresses


@pytest.mark.parametrize(
    "answer, reason",
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "it said 'HTTP/1.1 403 Forbidden'"),
        (b"INFO {}\r\n", "it said 'INFO {}'"),
        (
            b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
            "it said 'HTTP/1.0 400 Bad Request'; it expects wss://$",
        ),
        (
            b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "the answer to the WebSocket key is wrong|key is wrong",
        ),
        (b"HTTP/1.1 " + b"x" * MOST_HEAD_BYTES, "it said 'HTTP/1.1 xxx"),
    ],
)
def test_an_answer_that_refuses(answer: bytes, reason: str) -> None:
    with pytest.raises(OSError, match=reason):
        upgrade()[0].feed(answer)


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
