"""nats-py, on asyncio or, with a second argument, on uvloop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import asynchronous
from player import TIMEOUT


def main(port: int, uvloop: bool) -> None:
    import nats

    if uvloop:
        import uvloop as uv

        loop = uv.new_event_loop()
    else:
        loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    nc = loop.run_until_complete(nats.connect(f"nats://127.0.0.1:{port}"))

    async def subscribe(subject: str, add: Callable[[], None] | None) -> Any:
        if add is None:
            return await nc.subscribe(subject)

        async def handle(msg: Any) -> None:
            if msg.data:
                add()

        return await nc.subscribe(subject, cb=handle)

    peer = asynchronous.Peer()
    peer.publish = nc.publish
    peer.flush = lambda: nc.flush(int(TIMEOUT))
    peer.request = lambda subject, data: nc.request(subject, data, timeout=TIMEOUT)
    peer.subscribe = subscribe
    peer.take = lambda sub: sub.next_msg(TIMEOUT)
    asynchronous.play(loop, peer)


main(int(sys.argv[1]), len(sys.argv) > 2)
