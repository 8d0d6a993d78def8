"""A pool of processes that share one client: each forked child connects anew at its first call.

Children that are not forked (`spawn`, and `forkserver`, the default from Python 3.14 on) import the module
instead: make the client at module level, outside of `if __name__ == "__main__"`.
"""

import multiprocessing
import os

import natsync

nc = natsync.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), name="sample")


def ask(number: int) -> str:
    nc.publish("squares.asked", b"%d" % number)
    return nc.request("squares.of", b"%d" % number, timeout=5).data.decode()


if __name__ == "__main__":
    nc.subscribe("squares.of", handler=lambda msg: msg.respond(b"%d" % int(msg.data) ** 2))
    asked = nc.subscribe("squares.asked", max_msgs=8)
    nc.flush()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(*pool.map(ask, range(8)))
    print(sum(int(msg.data) for msg in asked.messages(timeout=5)))
    nc.close()
