"""A session with a real server, recorded as a capture.

Each side's bytes are put into the capture in the order in which this client wrote and read them, so a test
shows what a server really sends without the rights that a sniffer needs.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from types import TracebackType

from natsync.protocol import build_headers

from tests.support.pcapwriter import Conversation

_TIMEOUT = 10.0


class RecordedSession:
    """A scripted client of a server; a context manager. `conversation` has the packets of both sides."""

    def __init__(self, address: tuple[str, int], client: str = "10.0.0.1") -> None:
        self._socket = socket.create_connection(address, _TIMEOUT)
        ends = (client, self._socket.getsockname()[1]), ("10.9.9.9", address[1])
        self.conversation = Conversation(*ends, now_ns=time.time_ns())
        self.conversation.handshake()
        self._unread = b""

    def __enter__(self) -> RecordedSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()
        self.conversation.close()

    def connect(self, **connect: object) -> dict[str, object]:
        """Logs in and waits for the PONG; returns the INFO."""
        info = json.loads(self.until(b"INFO ").partition(b" ")[2])
        options = {
            "verbose": False,
            "headers": True,
            "no_responders": True,
            "protocol": 1,
            "lang": "go",
        }
        self.send(b"CONNECT %s\r\nPING\r\n" % json.dumps({**options, **connect}).encode())
        assert isinstance(info, dict)
        return info

    def logged_in(self, **connect: object) -> dict[str, object]:
        """The same, after the server accepted the login."""
        info = self.connect(**connect)
        self.until(b"PONG")
        return info

    def send(self, data: bytes) -> None:
        """Sends bytes."""
        self._note(self.conversation.from_client, data)
        self._socket.sendall(data)

    def publish(
        self,
        subject: str,
        payload: bytes = b"",
        reply: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Publishes a message."""
        words = " ".join([subject, reply]).strip()
        if headers is None:
            self.send(b"PUB %s %d\r\n%s\r\n" % (words.encode(), len(payload), payload))
            return
        block = build_headers([(name.encode(), text.encode()) for name, text in headers.items()])
        sizes = b"%d %d" % (len(block), len(block) + len(payload))
        self.send(b"HPUB %s %s\r\n%s%s\r\n" % (words.encode(), sizes, block, payload))

    def until(self, wanted: bytes) -> bytes:
        """Reads until a line of the server begins with these bytes, or contains them; returns the line."""
        while True:
            line, end, rest = self._unread.partition(b"\r\n")
            if end:
                self._unread = rest
                if wanted in line:
                    return line
                continue
            data = self._socket.recv(1 << 16)
            if not data:
                raise EOFError(f"the server closed the connection before {wanted!r}: {line!r}")
            self._note(self.conversation.from_server, data)
            self._unread += data

    def _note(self, say: object, data: bytes) -> None:
        self.conversation.now_ns = max(self.conversation.now_ns, time.time_ns())
        assert callable(say)
        say(data)
