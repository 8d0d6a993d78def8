"""Publish messages and read them back, with a wildcard."""

import os

import natsync

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")

with natsync.connect(URL, name="sample") as nc:
    orders = nc.subscribe("orders.*", max_msgs=3)
    for number in range(3):
        nc.publish(f"orders.{number}", b"one coffee")
    for msg in orders:
        print(msg.subject, msg.data.decode())
