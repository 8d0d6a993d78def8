"""A relay between two servers, with TLS to each of them. nats-server writes no key log, but a relay can.

    with TlsRelay(server.leaf_port, paths, ca, keys, greets=True) as relay:
        ...  # connect to relay.port

Each connection is kept three times: `near` has the bytes between the side that connects and the relay, `far`
those between the relay and the server, and `clear` the plaintext of both directions.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
from pathlib import Path
from types import TracebackType

from tests.bench.tap import Sent
from tests.support.certificates import Paths

BUFFER = 1 << 16
TIMEOUT = 20.0


class TlsRelay:
    """Relays connections to a port of loopback, with a certificate that is good for both sides. `keys` is the
    key log. With `greets`, TLS begins after the first line of the server. With `mutual`, the side that
    connects must show a certificate."""

    def __init__(
        self,
        port: int,
        paths: Paths,
        ca: Path,
        keys: Path,
        *,
        greets: bool = False,
        mutual: bool = False,
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    ) -> None:
        self.near: list[Sent] = []
        self.far: list[Sent] = []
        self.clear: list[Sent] = []
        self._target = "127.0.0.1", port
        self._greets = greets
        self._contexts = [
            ssl.create_default_context(purpose, cafile=str(ca))
            for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH)
        ]
        for context in self._contexts:
            context.load_cert_chain(paths.cert, paths.key)
            context.minimum_version = context.maximum_version = version
            context.keylog_filename = str(keys)
        if mutual:
            self._contexts[0].verify_mode = ssl.CERT_REQUIRED
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]
        self._sockets: list[socket.socket] = []

    @property
    def port(self) -> int:
        """Where to connect."""
        port: int = self._listener.getsockname()[1]
        return port

    def __enter__(self) -> TlsRelay:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(TIMEOUT)
        for each in (self._listener, *self._sockets):
            each.close()
        for context in self._contexts:
            setattr(context, "keylog_filename", None)  # closes the file

    def _accept(self) -> None:
        while True:
            try:
                near = self._listener.accept()[0]
                far = socket.create_connection(self._target, TIMEOUT)
            except OSError:
                return
            self._sockets += near, far
            records: list[Sent] = [[], [], []]
            for kept, each in zip((self.near, self.far, self.clear), records):
                kept.append(each)
            thread = threading.Thread(target=self._carry, args=(near, far, *records))
            self._threads.append(thread)
            thread.start()

    def _carry(
        self, near: socket.socket, far: socket.socket, by: Sent, to: Sent, clear: Sent
    ) -> None:
        try:
            if self._greets:
                line = b""
                while not line.endswith(b"\n"):
                    line += far.recv(1)
                near.sendall(line)
                for records in (by, to, clear):
                    records.append((1, line))
            ends = [
                _End(near, self._contexts[0], by, is_server=True),
                _End(far, self._contexts[1], to, is_server=False),
            ]
            _exchange(ends, clear)
        except OSError:  # a side is gone, or refuses
            pass
        finally:
            for each in (near, far):
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


class _End:
    """One side of the relay, which is the server or the client of its TLS connection."""

    def __init__(
        self, peer: socket.socket, context: ssl.SSLContext, records: Sent, is_server: bool
    ) -> None:
        self.peer = peer
        self.side = 0 if is_server else 1  # of the peer: who connected is 0
        self._records = records
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        name = None if is_server else "127.0.0.1"
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=is_server, server_hostname=name
        )
        self._shaken = False
        self._waiting = b""  # to be encrypted after the handshake
        self._step()

    def read(self) -> bytes | None:
        """What the peer says now; None: it ends."""
        data = self.peer.recv(BUFFER)
        if not data:
            return None
        self._records.append((self.side, data))
        self._incoming.write(data)
        self._step()
        parts = []
        try:
            while self._shaken and (part := self._tls.read(BUFFER)):
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        self._flush()
        return b"".join(parts)

    def write(self, data: bytes) -> None:
        """Says this to the peer."""
        self._waiting += data
        if self._shaken and self._waiting:
            self._tls.write(self._waiting)
            self._waiting = b""
        self._flush()

    def _step(self) -> None:
        try:
            if not self._shaken:
                self._tls.do_handshake()
                self._shaken = True
        except ssl.SSLWantReadError:
            pass
        finally:
            self.write(b"")

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data:
            self._records.append((1 - self.side, data))
            self.peer.sendall(data)


def _exchange(ends: list[_End], clear: Sent) -> None:
    """Carries what both say, until one of them ends."""
    with selectors.DefaultSelector() as selector:
        for end in ends:
            selector.register(end.peer, selectors.EVENT_READ, end)
        while True:
            for key, _ in selector.select():
                data = key.data.read()
                if data is None:
                    return
                if data:
                    clear.append((key.data.side, data))
                    ends[1 - key.data.side].write(data)
