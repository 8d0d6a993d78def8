"""A service that answers requests, and a caller that waits for the answer."""

import os

import natsync

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")

with natsync.connect(URL, name="sample") as nc:
    nc.subscribe("greet", handler=lambda msg: msg.respond(b"hello, " + msg.data))
    print(nc.request("greet", b"world", timeout=2).data.decode())
    try:
        nc.request("nobody.listens.here", timeout=2)
    except natsync.NoRespondersError as error:
        print(error)
