"""Messages that come faster than they are taken: here the oldest are dropped, counted and told of."""

import logging
import os
import threading

import natsync

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
logging.getLogger("natsync").setLevel(logging.ERROR)  # it would tell of it, too
slow = threading.Event()


def told(error: natsync.Error) -> None:
    if isinstance(error, natsync.SlowConsumerError):  # once, however many it drops
        slow.set()


with natsync.connect(URL, name="sample", on_error=told) as nc:
    ticks = nc.subscribe("ticks", pending_msgs_limit=10, overflow="drop_old")
    for number in range(100):
        nc.publish("ticks", b"%d" % number)
    nc.flush()  # all have come back by now
    if slow.wait(10):
        print("slow consumer on", ticks.subject)
    print(ticks.dropped, "dropped, first kept:", ticks.next_msg(timeout=2).data.decode())
