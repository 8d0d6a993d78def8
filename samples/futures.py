"""Many requests at a time from one thread, several replies to one, and one that nobody answers."""

import os

import natsync

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


def square(msg: natsync.Msg) -> None:
    msg.respond(str(int(msg.data) ** 2).encode())


with natsync.connect(URL, name="sample", request_timeout=2) as nc:
    nc.subscribe("square", handler=square)
    futures = [nc.request_async("square", b"%d" % number) for number in range(8)]
    print(*[int(future.result().data) for future in futures])

    nc.subscribe("who", handler=lambda msg: msg.respond(b"north"))
    nc.subscribe("who", handler=lambda msg: msg.respond(b"south"))
    print(*sorted(msg.data.decode() for msg in nc.request_many("who", max_msgs=2)))

    error = nc.request_async("nobody.listens.here").exception()
    print(error)
