"""asyncio-nats-streaming 0.4: prints messages a second of three calls. For a Python before 3.10."""

import asyncio
import sys
import time

from nats.aio.client import Client as NATS
from stan.aio.client import Client as STAN

URL, CHANNEL = sys.argv[1:3]
PUBLISHED, WINDOWED, SIZE = map(int, sys.argv[3:])


async def measure(name, count, action):
    begin = time.perf_counter()
    await action()
    print(name, count / (time.perf_counter() - begin))


async def main():
    nc, sc = NATS(), STAN()
    await nc.connect(URL)
    await sc.connect("test-cluster", "asyncio", nats=nc)
    data = b"x" * SIZE

    async def publish():
        for _ in range(PUBLISHED):
            await sc.publish(CHANNEL, data)

    async def publish_async():
        done = asyncio.Event()
        acks = []

        async def handle(ack):
            acks.append(ack)
            if len(acks) == WINDOWED:
                done.set()

        for _ in range(WINDOWED):
            await sc.publish(CHANNEL, data, ack_handler=handle)
        await done.wait()

    async def receive():
        done = asyncio.Event()

        async def handle(msg):
            if msg.seq == WINDOWED:
                done.set()

        await sc.subscribe(CHANNEL, start_at="first", cb=handle)
        await done.wait()

    await measure("publish", PUBLISHED, publish)
    await measure("publish_async", WINDOWED, publish_async)
    await measure("handler", WINDOWED, receive)
    await sc.close()
    await nc.close()


asyncio.get_event_loop().run_until_complete(main())
