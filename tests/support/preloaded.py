"""A WSGI application whose client is made when it is imported: before the fork, with `gunicorn --preload`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import natsync

nc = natsync.connect(os.environ["NATS_URL"], connect_timeout=10)


def app(
    environ: dict[str, object], start: Callable[[str, list[tuple[str, str]]], object]
) -> Iterable[bytes]:
    """Asks over NATS, and answers with the reply."""
    reply = nc.request("echo", str(os.getpid()).encode(), timeout=10)
    start("200 OK", [("Content-Length", str(len(reply.data)))])
    return [reply.data]
