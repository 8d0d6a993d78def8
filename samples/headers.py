"""Message headers: case is kept, and a name may have several values."""

import os

import natsync

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")

with natsync.connect(URL, name="sample") as nc:
    letters = nc.subscribe("letters")
    nc.publish("letters", b"Dear ...", headers={"From": "Ada", "To": ["Grace", "Edsger"]})
    msg = letters.next_msg(timeout=2)
    print(msg.headers["From"], msg.headers.get_all("To"))
