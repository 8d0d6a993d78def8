"""A small HTTP proxy on loopback that opens tunnels with CONNECT, as squid and others do.

    with ConnectProxy() as proxy, natsync.connect(url, http_proxy=proxy.url) as nc: ...

`asked` has the heads of all requests. `password` demands Basic credentials of the user `shop`; `answer`
replaces the answer to every request; `early` comes with the answer, as if the server had sent it.
"""

from __future__ import annotations

import selectors
import socket
import threading
from base64 import b64encode
from types import TracebackType

_HEAD_END = b"\r\n\r\n"


class ConnectProxy:
    """One thread accepts and moves all bytes."""

    def __init__(self, password: str = "", answer: bytes = b"", early: bytes = b"") -> None:
        self.asked: list[bytes] = []
        self._login = b64encode(f"shop:{password}".encode()) if password else b""
        self._answer = answer
        self._early = early
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._near, self._far = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._peers: dict[socket.socket, socket.socket | None] = {}
        self._heads: dict[socket.socket, bytes] = {}
        for each in (self._listener, self._far):
            self._selector.register(each, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="connect-proxy")
        user = f"shop:{password}@" if password else ""
        self.url = f"http://{user}127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> ConnectProxy:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._near.send(b"x")
        self._thread.join()
        for each in (*self._peers, self._listener, self._near, self._far):
            each.close()
        self._selector.close()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if sock is self._far:
                    return
                if sock is self._listener:
                    client, _ = sock.accept()
                    self._add(client, None)
                    self._heads[client] = b""
                elif sock in self._peers:  # else closed with its peer in this turn
                    self._read(sock)

    def _add(self, sock: socket.socket, peer: socket.socket | None) -> None:
        self._peers[sock] = peer
        self._selector.register(sock, selectors.EVENT_READ)

    def _read(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(64 << 10)
        except OSError:
            data = b""
        peer = self._peers[sock]
        if not data:
            self._drop(sock)
        elif peer:
            try:
                peer.sendall(data)
            except OSError:
                self._drop(sock)
        else:
            self._heads[sock] += data
            if _HEAD_END in self._heads[sock]:
                self._connect(sock, self._heads.pop(sock))

    def _connect(self, client: socket.socket, head: bytes) -> None:
        self.asked.append(head)
        login = b"Proxy-Authorization: Basic " + self._login
        if self._answer or self._login and login not in head:
            client.sendall(self._answer or b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            self._drop(client)
            return
        host, _, port = head.split(b" ")[1].decode().rpartition(":")
        server = socket.create_connection((host, int(port)))
        self._peers[client] = server
        self._add(server, client)
        head = b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n"
        client.sendall(head + self._early)

    def _drop(self, sock: socket.socket) -> None:
        for each in (sock, self._peers.get(sock)):
            if each in self._peers:
                assert each
                del self._peers[each]
                self._heads.pop(each, None)
                self._selector.unregister(each)
                each.close()
