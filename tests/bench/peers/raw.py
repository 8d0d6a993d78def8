"""The least client there is: a blocking socket that talks NATS. Feeds the peers, and answers them."""

from __future__ import annotations

import random
import re
import socket

LINE = re.compile(rb"(?:MSG (\S+) \S+ (?:(\S+) )?(\d+)|(PING)|[^M\r\n][^\r\n]*)\r\n")


class Raw:
    """One connection, for one thread."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""
        self.send(b'CONNECT {"verbose":false,"pedantic":false,"lang":"raw","version":"0"}\r\n')
        self.ping()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def ping(self) -> None:
        """Returns when the server has dealt with what was sent."""
        self.send(b"PING\r\n")
        while b"PONG\r\n" not in self._unread:
            self._unread += self._socket.recv(65536)
        self._unread = b""

    def feed(self, subject: str, size: int, count: int) -> None:
        """Sends `count` messages, as fast as the server takes them."""
        one = b"PUB %b %d\r\n%b\r\n" % (subject.encode(), size, b"x" * size)
        at_once = max(1, 65536 // len(one))
        while count > 0:
            self.send(one * min(at_once, count))
            count -= at_once
        self.ping()

    def feed_varied(self, count: int) -> None:
        """Sends `count` messages whose subjects, replies and sizes (1 to 400 B) do not repeat. They are made
        first, which takes half as long as receiving them."""
        rng = random.Random(1)
        batches = []
        for first in range(0, count, 256):
            pieces = []
            for number in range(first, min(first + 256, count)):
                subject = b"bench.varied.%d" % rng.randrange(20_000)
                size = rng.randrange(1, 401)
                line = b"PUB %b _INBOX.Qy2bTxJ8cLkqE0pW.%d %d" % (subject, number, size)
                pieces += [line, b"x" * size]
            batches.append(b"\r\n".join([*pieces, b""]))
        for batch in batches:
            self.send(batch)
        self.ping()

    def receive(self) -> list[tuple[bytes, bytes, bytes]]:
        """Subject, reply and payload of the messages that come next; none at the end."""
        data = self._socket.recv(65536)
        if not data:
            raise SystemExit
        self._unread += data
        found = []
        at = 0
        while line := LINE.match(self._unread, at):
            if not line[1]:
                at = line.end()
                if line[4]:
                    self.send(b"PONG\r\n")
                continue
            end = line.end() + int(line[3])
            if end + 2 > len(self._unread):
                break
            found.append((line[1], line[2] or b"", self._unread[line.end() : end]))
            at = end + 2
        self._unread = self._unread[at:]
        return found
