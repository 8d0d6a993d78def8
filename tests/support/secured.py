"""Dialling, shaking hands and waiting for tests of TLS, and certificates for all their cases."""

from __future__ import annotations

import selectors
from dataclasses import dataclass
from pathlib import Path

from natsync._engine.transport import Transport, resolve
from natsync.options import Server
from natsync.tls import TLS

from tests.support.certificates import Authority, Paths

TIMEOUT = 10.0
READ_BYTES = 64 << 10


@dataclass(frozen=True)
class Certificates:
    """`server` is good for localhost and its addresses; all are signed by `ca`."""

    ca: Path
    other_ca: Path
    server: Paths
    elsewhere: Paths
    expired: Paths
    client: Paths


def make_certificates(folder: Path) -> Certificates:
    authority = Authority(folder)
    return Certificates(
        authority.cert,
        Authority(folder, "other-ca").cert,
        authority.issue("server", "localhost", "127.0.0.1", "::1"),
        authority.issue("elsewhere", "elsewhere.example", "10.9.8.7"),
        authority.issue("expired", "localhost", "127.0.0.1", days=-2),
        authority.issue("client"),
    )


def wait(near: Transport, writing: bool = False) -> None:
    events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
    with selectors.DefaultSelector() as selector:
        selector.register(near, events)
        assert selector.select(TIMEOUT), "nothing comes"


def dial(host: str, port: int) -> Transport:
    near = Transport(resolve(host, port, numeric=True)[0])
    with selectors.DefaultSelector() as selector:
        selector.register(near, selectors.EVENT_WRITE)
        assert selector.select(TIMEOUT)
    near.finish()
    return near


def shake(near: Transport, tls: TLS, host: str = "localhost") -> None:
    near.secure(tls, Server(host))
    while not near.handshake():
        wait(near, near.wants_write)


def read_all(near: Transport, size: int) -> bytes:
    """Everything up to the end, or `size` bytes; waits only when there is nothing."""
    data = b""
    while len(data) < size:
        piece = near.read(READ_BYTES)
        if piece is None:
            wait(near, near.wants_write)
        elif not piece:
            break
        else:
            data += piece
    return data
