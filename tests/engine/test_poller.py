"""Waiting for descriptors: epoll and `selectors` do the same."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing

import pytest

from natsync._engine import poller
from natsync._engine.poller import READABLE, WRITABLE, Poller, new_poller


def by_selectors() -> Poller:
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr("select.epoll", raising=False)
        assert poller.epoll() is None
        return new_poller()


@pytest.mark.parametrize("make", [new_poller, by_selectors])
def test_what_is_waited_for_is_reported(make: Callable[[], Poller]) -> None:
    near, far = socket.socketpair()
    with near, far, closing(make()) as waiting:
        fd = near.fileno()
        waiting.register(fd, READABLE)
        assert list(waiting.poll(0.0)) == []
        far.send(b"x")
        assert list(waiting.poll(10.0)) == [(fd, READABLE)]
        waiting.modify(fd, WRITABLE)
        assert list(waiting.poll(10.0)) == [(fd, WRITABLE)]
        waiting.modify(fd, READABLE | WRITABLE)
        assert list(waiting.poll(10.0)) == [(fd, READABLE | WRITABLE)]
        waiting.unregister(fd)
        assert list(waiting.poll(0.0)) == []
