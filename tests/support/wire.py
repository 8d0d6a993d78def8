"""A scripted NATS client on a plain socket, for recording captures.

It sends what it is told, waits for the answer it is told to wait for, and counts every operation
both ways. It has a parser of its own, a naive one on purpose: what it counts is the witness against
which the product's codec is checked, so the two must not share code.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

TIMEOUT = 20.0
WITH_BODY = {"MSG", "HMSG"}

Headers = list[tuple[str, str]]


class Stream(Protocol):
    """What a client needs of its connection: a socket, one wrapped in TLS, or a WebSocket."""

    def sendall(self, data: bytes, /) -> None: ...
    def read(self, size: int, /) -> bytes: ...
    def readline(self) -> bytes: ...


class Plain:
    """A Stream over a connected socket, TLS or not."""

    def __init__(self, connection: socket.socket) -> None:
        self.sendall = connection.sendall
        reader = connection.makefile("rb")
        self.read: Callable[[int], bytes] = reader.read
        self.readline: Callable[[], bytes] = reader.readline


class WebSocket:
    """A Stream in masked binary WebSocket messages (RFC 6455), one for each sendall."""

    extensions = ""

    def __init__(self, connection: socket.socket, host: str) -> None:
        self._connection = connection
        self._reader = connection.makefile("rb")
        self._buffer = bytearray()
        connection.sendall(
            f"GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{self.extensions}"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        answer = self._reader.readline()
        if b" 101 " not in answer:
            raise ConnectionError(f"no WebSocket: {answer!r}")
        while self._reader.readline() != b"\r\n":
            pass

    def sendall(self, data: bytes, /) -> None:
        self._send_frame(b"\x82", data)

    def _send_frame(self, first: bytes, data: bytes) -> None:
        length = (
            bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack("!H", len(data))
        )
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
        self._connection.sendall(first + length + mask + masked)

    def read(self, size: int, /) -> bytes:
        while len(self._buffer) < size and self._more():
            pass
        return self._take(size)

    def readline(self) -> bytes:
        while b"\n" not in self._buffer and self._more():
            pass
        return self._take(self._buffer.find(b"\n") + 1)

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _more(self) -> bool:
        head = self._reader.read(2)
        if len(head) < 2 or head[0] & 15 == 8:
            return False
        size = head[1] & 127
        if size == 126:
            (size,) = struct.unpack("!H", self._reader.read(2))
        self._buffer += self._content(head[0], self._reader.read(size))
        return True

    def _content(self, first: int, data: bytes) -> bytes:
        return data


class DeflatedWebSocket(WebSocket):
    """The same with permessage-deflate (RFC 7692) in both directions, every message on its own."""

    extensions = (
        "Sec-WebSocket-Extensions: permessage-deflate; "
        "server_no_context_takeover; client_no_context_takeover\r\n"
    )

    def sendall(self, data: bytes, /) -> None:
        compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
        deflated = compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)
        self._send_frame(b"\xc2", deflated[:-4])

    def _content(self, first: int, data: bytes) -> bytes:
        if not first & 0x40:
            return data
        return zlib.decompressobj(-15).decompress(data + b"\0\0\xff\xff")


@dataclass(frozen=True, slots=True)
class Received:
    """One operation from the server; the body is headers and payload together."""

    op: str
    args: list[str]
    body: bytes = b""

    @property
    def subject(self) -> str:
        return self.args[0]

    @property
    def reply(self) -> str:
        """The reply subject, or nothing."""
        plain = 3 if self.op == "MSG" else 4
        return self.args[2] if len(self.args) > plain else ""


@dataclass(slots=True)
class Counts:
    """What one client did and saw; subjects count messages."""

    sent: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    published: Counter[str] = field(default_factory=Counter)
    delivered: Counter[str] = field(default_factory=Counter)

    def table(self) -> dict[str, dict[str, int]]:
        return {slot: dict(getattr(self, slot)) for slot in self.__slots__}

    def copy(self) -> Counts:
        return Counts(*map(Counter, self.table().values()))

    def since(self, before: Counts) -> Counts:
        return Counts(*(getattr(self, slot) - getattr(before, slot) for slot in self.__slots__))


class Wire:
    """One client connection. It reads the INFO at once and answers every PING by itself."""

    def __init__(
        self, connection: socket.socket, stream: Stream | None = None, name: str = ""
    ) -> None:
        connection.settimeout(TIMEOUT)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.local: tuple[str, int] = connection.getsockname()[:2]
        self.name = name
        self.counts = Counts()
        self.end = "open"
        self.piece = 0  # where not 0, what is sent goes out in pieces of so many bytes
        self._stream = stream or Plain(connection)
        self._batch: list[bytes] | None = None
        self._sids = 0
        self._closing = False
        self.info: dict[str, object] = json.loads(self.expect("INFO").args[0])

    def upgrade(self, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> None:
        """Go on in TLS, as a client does after an INFO that asks for it."""
        self.connection = context.wrap_socket(
            self.connection, server_hostname="localhost", session=session
        )
        self._stream = Plain(self.connection)

    def connect(self, **options: object) -> None:
        """CONNECT and PING, and wait for the PONG."""
        self.send_connect(**options)
        self.flush()

    def send_connect(self, **options: object) -> None:
        connect = {
            "verbose": False,
            "pedantic": False,
            "lang": "python",
            "version": "1.0.0",
            "protocol": 1,
        }
        connect |= {"headers": True, "no_responders": True, "name": self.name} | options
        wanted = {key: value for key, value in connect.items() if value is not None}
        self._send("CONNECT", json.dumps(wanted, separators=(",", ":")))

    def pub(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: Headers | None = None
    ) -> None:
        """PUB, or HPUB where there are headers."""
        self.counts.published[subject] += 1
        target = f"{subject} {reply}" if reply else subject
        if headers is None:
            self._send("PUB", f"{target} {len(payload)}", payload)
        else:
            block = (
                "NATS/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers) + "\r\n"
            )
            body = block.encode() + payload
            self._send("HPUB", f"{target} {len(block.encode())} {len(body)}", body)

    def sub(self, subject: str, queue: str = "") -> int:
        """SUB; the answer is its sid."""
        self._sids += 1
        self._send("SUB", " ".join(filter(None, (subject, queue, str(self._sids)))))
        return self._sids

    def unsub(self, sid: int, maximum: int = 0) -> None:
        self._send("UNSUB", f"{sid} {maximum}" if maximum else str(sid))

    def flush(self) -> None:
        """PING, and wait for its PONG: the server has dealt with all that was sent before."""
        self._send("PING")
        self.expect("PONG")

    @contextmanager
    def batch(self) -> Iterator[None]:
        """All that is sent inside leaves in one write."""
        self._batch = []
        yield
        parts, self._batch = self._batch, None
        self._write(b"".join(parts))

    def expect(self, op: str, subject: str = "") -> Received:
        """Read on to the next such operation; EOFError if the stream ends first."""
        while True:
            received = self._next()
            if received is None:
                raise EOFError(f"{self.name}: the server closed while {op} {subject} was expected")
            if received.op == op and subject in ("", *received.args[:1]):
                return received

    def expect_any(self, *ops: str) -> Received:
        """Read on to the next of some operations."""
        while True:
            received = self._next()
            if received is None:
                raise EOFError(f"{self.name}: the server closed while {ops} were expected")
            if received.op in ops:
                return received

    def respond(
        self, payload: bytes, subject: str = "", headers: Headers | None = None
    ) -> Received:
        """Wait for a request and answer it."""
        request = self.expect("MSG", subject)
        self.pub(request.reply, payload, headers=headers)
        return request

    def until_closed(self) -> None:
        """Wait for the server to close, then close too."""
        while self._next() is not None:
            pass
        self.end = "closed by server"
        self.connection.close()

    def close(self) -> None:
        """FIN, wait for the server's, and go."""
        self._closing = True
        if isinstance(self.connection, ssl.SSLSocket):
            self.connection = self.connection.unwrap()  # both say close_notify
            self._stream = Plain(self.connection)
        self.connection.shutdown(socket.SHUT_WR)
        self.until_closed()
        self.end = "fin"

    def reset(self) -> None:
        """RST, without a goodbye."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.end = "rst"
        self.abandon()

    def abandon(self) -> None:
        """Let go of the socket, whatever its state."""
        self._stream = Closed()
        self.connection.close()

    def _send(self, op: str, args: str = "", body: bytes | None = None) -> None:
        self.counts.sent[op] += 1
        line = f"{op} {args}" if args else op
        self._write(line.encode() + b"\r\n" + (b"" if body is None else body + b"\r\n"))

    def _write(self, data: bytes) -> None:
        if self._batch is not None:
            self._batch.append(data)
            return
        step = self.piece or len(data)
        for at in range(0, len(data), step):
            self._stream.sendall(data[at : at + step])

    def _next(self) -> Received | None:
        line = self._stream.readline()
        if not line:
            return None
        op, _, rest = line.decode().strip().partition(" ")
        args = rest.split(" ") if rest else []
        body = b""
        if op in WITH_BODY:
            size = int(args[-1]) + 2
            body = self._stream.read(size)
            if len(body) < size:
                return None  # the server has closed in the middle of a message
            self.counts.delivered[args[0]] += 1
        self.counts.received[op] += 1
        if op == "PING" and not self._closing:
            self._send("PONG")
        return Received(op, args, body[:-2]) if body else Received(op, [rest] if rest else [])


class Closed:
    """The Stream of a client that is gone."""

    def sendall(self, data: bytes, /) -> None:
        raise ConnectionError("closed")

    def read(self, size: int, /) -> bytes:
        return b""

    def readline(self) -> bytes:
        return b""
