"""nats-core, the asyncio client that needs Python 3.13."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import asynchronous
from nats.client import connect
from player import TIMEOUT


def main(port: int) -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    nc = loop.run_until_complete(connect(f"nats://127.0.0.1:{port}"))

    async def subscribe(subject: str, add: Callable[[], None] | None) -> Any:
        sub = await nc.subscribe(subject, max_pending_messages=None, max_pending_bytes=None)
        if add is not None:
            sub.add_callback(lambda msg: add() if msg.data else None)
        return sub

    peer = asynchronous.Peer()
    peer.publish = nc.publish
    peer.flush = lambda: nc.flush(TIMEOUT)
    peer.request = lambda subject, data: nc.request(subject, data, timeout=TIMEOUT)
    peer.subscribe = subscribe
    peer.take = lambda sub: sub.next(TIMEOUT)
    asynchronous.play(loop, peer)


main(int(sys.argv[1]))
