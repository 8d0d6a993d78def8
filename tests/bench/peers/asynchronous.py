"""The games of the peers that are asyncio: one client each, whose loop runs while it plays.

Whoever uses this gives `Peer` its five verbs; all that is measured is the same for all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import player
from player import PAUSE, SUBJECT, TIMEOUT, Clock, Counter, ready


class Peer:
    """`publish` takes `reply` and `headers` by name. `subscribe(subject, add)` calls `add` for each message,
    and returns what `unsubscribe` takes; with None instead of it, what has a `next` for `take`."""

    publish: Callable[..., Awaitable[Any]]
    flush: Callable[[], Awaitable[Any]]
    request: Callable[[str, bytes], Awaitable[Any]]
    subscribe: Callable[[str, Callable[[], None] | None], Awaitable[Any]]
    take: Callable[[Any], Awaitable[Any]]


async def publish(peer: Peer, size: int, count: int) -> Clock:
    data = b"x" * size
    send = peer.publish
    clock = Clock().start()
    for _ in range(count):
        await send(SUBJECT, data)
    await peer.flush()
    return clock.stop()


async def publish_varied(peer: Peer, size: int, count: int) -> Clock:
    return await publish_all(peer, player.varied(count))


async def publish_sized(peer: Peer, size: int, count: int) -> Clock:
    return await publish_all(peer, player.sized(count))


async def publish_all(peer: Peer, messages: list[tuple[str, bytes]]) -> Clock:
    send = peer.publish
    clock = Clock().start()
    for subject, data in messages:
        await send(subject, data)
    await peer.flush()
    return clock.stop()


async def publish_reply(peer: Peer, size: int, count: int) -> Clock:
    messages, replies = player.varied(count), player.replies(count)
    send = peer.publish
    clock = Clock().start()
    for (subject, data), reply in zip(messages, replies):
        await send(subject, data, reply=reply)
    await peer.flush()
    return clock.stop()


async def publish_headers(peer: Peer, size: int, count: int) -> Clock:
    messages, headers = player.varied(count), player.headers(count)
    send = peer.publish
    clock = Clock().start()
    for (subject, data), fields in zip(messages, headers):
        await send(subject, data, headers=fields)
    await peer.flush()
    return clock.stop()


async def receive_varied(peer: Peer, size: int, count: int) -> Clock:
    return await receive(peer, size, count, f"{player.VARIED}.>")


async def receive(peer: Peer, size: int, count: int, subject: str = SUBJECT) -> Clock:
    done = asyncio.Event()
    counter = Counter(count, done.set)
    sub = await peer.subscribe(subject, counter.add)
    await peer.flush()
    ready()
    await asyncio.wait_for(done.wait(), TIMEOUT)
    await leave(peer, sub)
    return counter.clock


async def next_msg(peer: Peer, size: int, count: int) -> Clock:
    clock = Clock()
    sub = await peer.subscribe(SUBJECT, None)
    await peer.flush()
    ready()
    take = peer.take
    clock.start()
    await take(sub)
    clock.first()
    for _ in range(count - 1):
        await take(sub)
    clock.stop()
    await leave(peer, sub)
    return clock


async def leave(peer: Peer, sub: Any) -> None:
    """Until the server knows: the loop stands still after this, and what came would not be read."""
    await sub.unsubscribe()
    await peer.flush()


async def request(peer: Peer, size: int, count: int) -> Clock:
    data = b"x" * size
    clock = Clock().start()
    for _ in range(count):
        begun = time.perf_counter()
        await peer.request("echo", data)
        clock.delays.append(time.perf_counter() - begun)
    return clock.stop()


async def flight(peer: Peer, size: int, count: int) -> Clock:
    data = b"x" * size

    async def ask() -> None:
        for _ in range(count // 16):
            await peer.request("echo", data)

    clock = Clock().start()
    await asyncio.gather(*(ask() for _ in range(16)))
    return clock.stop()


async def delay(peer: Peer, size: int, count: int) -> Clock:
    clock = Clock().start()
    for _ in range(count):
        await peer.publish("clock", b"%d" % time.monotonic_ns())
        await asyncio.sleep(PAUSE)
    await peer.flush()
    return clock.stop()


def play(loop: asyncio.AbstractEventLoop, peer: Peer) -> None:
    """Plays on `loop`."""

    def game(
        coroutine: Callable[[Peer, int, int], Awaitable[Clock]],
    ) -> Callable[[int, int], Clock]:
        return lambda size, count: loop.run_until_complete(coroutine(peer, size, count))

    varied = (publish_varied, publish_sized, publish_reply, publish_headers, receive_varied)
    games = (publish, receive, next_msg, request, flight, delay, *varied)
    # What threads are to a blocking client, tasks are to this one.
    player.play({**{each.__name__: game(each) for each in games}, "threads": game(flight)})
