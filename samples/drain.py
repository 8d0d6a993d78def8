"""The end of a worker: it takes no new messages, finishes what it has, and only then closes."""

import os

import natsync

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
done: list[bytes] = []


def work(msg: natsync.Msg) -> None:
    done.append(msg.data)


with natsync.connect(URL, name="sample-sender") as sender:
    worker = natsync.connect(URL, name="sample-worker")
    worker.subscribe("jobs", handler=work)
    worker.flush()  # the server knows of it
    for number in range(1000):
        sender.publish("jobs", b"%d" % number)
    sender.flush()  # the server has passed them all on
    try:
        worker.drain(timeout=10)  # a signal handler would only set an event, on which this waits
    except natsync.DrainTimeoutError as error:
        print("not done:", error.left)
    print(len(done), "jobs done,", worker.status.value)
