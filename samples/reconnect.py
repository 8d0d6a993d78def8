"""A connection that is lost and made again: what a program hears of it, and what it need not do."""

import os
import threading

import natsync

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
again = threading.Event()


def lost(error: natsync.Error | None) -> None:
    print("disconnected")


def back() -> None:
    print("reconnected")
    again.set()


with natsync.connect(URL, name="sample", on_disconnect=lost, on_reconnect=back) as nc:
    prices = nc.subscribe("prices")
    nc.reconnect()  # as if the connection were lost
    again.wait(10)
    nc.publish("prices", b"4.20")  # the server was told of the subscription again
    print(prices.next_msg(timeout=2).data.decode())
    print("reconnects:", nc.stats.reconnects)
