"""Worker threads that share one connection and the messages of a queue group."""

import os
import threading

import natsync

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


def work(jobs: natsync.Subscription) -> None:
    for job in jobs:
        job.respond(b"done: " + job.data)


with natsync.connect(URL, name="sample") as nc:
    for number in range(4):
        jobs = nc.subscribe("jobs", queue="workers")
        threading.Thread(target=work, args=[jobs], name=f"worker-{number}").start()
    for number in range(8):
        print(nc.request("jobs", b"job %d" % number, timeout=2).data.decode())
