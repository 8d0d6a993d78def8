"""NATS Streaming with servers that restart: `python -m tests.streaming.soak [SECONDS]`.

Publishers, a durable that is closed and resumed, and a durable queue group with two members use one channel,
while the streaming server (file store) and the NATS server are stopped and killed in turn. At the end every
message is accounted for: what was acknowledged is stored once and was delivered to the durable and to the
group; what is stored was published; a sequence always brings the same data.

`again` counts messages that came again without the flag `redelivered`. The server sends them so: it writes
that it has sent a message after it has sent it, and a kill in between loses the record (ioLoop in server.go:
processMsg, then Subs.Flush). A second connection that listened to all inboxes saw the same flags.

`mended` counts files that a kill left with half a record at the end. Server 0.25.6 does not start with such a
file, or appends to it and does not start the next time; `mend` does what its `--file_truncate_bad_eof` does.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGKILL, SIGTERM

import natsync
from natsync import streaming
from natsync.streaming import StartPosition, StreamingConnection, Subscription

from tests.support.servers import NatsServer
from tests.support.streaming_servers import CLUSTER, StreamingServer

CHANNEL = "soak"
OUTAGES = (4.0, 9.0)
"""Seconds between two."""
AT_ONCE = 64


class Soak:
    """One run."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.over = threading.Event()
        self.acked: set[bytes] = set()
        self.unknown: set[bytes] = set()
        self.durable: dict[int, bytes] = {}
        self.group: dict[int, bytes] = {}
        self.counts = {"outages": 0, "redelivered": 0, "resumed": 0, "again": 0, "mended": 0}
        self.faults: list[str] = []

    def connect(self, name: str) -> StreamingConnection:
        return streaming.connect(
            CLUSTER,
            name,
            servers=self.url,
            ping_interval=1,
            pub_ack_wait=5.0,
            max_pub_acks_inflight=AT_ONCE,
            on_connection_lost=lambda error: self.faults.append(f"{name}: {error}"),
        )

    def publish(self) -> None:
        with self.connect("publisher") as sc:
            number = 0
            while not self.over.is_set():
                data = b"one-%d" % (number := number + 1)
                try:
                    sc.publish(CHANNEL, data)
                    self.acked.add(data)
                except (natsync.Error, TimeoutError):
                    self.unknown.add(data)
                    time.sleep(0.01)
                time.sleep(0.001)
            self.answered(sc.close)

    def publish_async(self) -> None:
        sc = self.connect("async")
        number = 0
        while not self.over.is_set():
            sent = []
            for number in range(number + 1, number + AT_ONCE + 1):
                data = b"many-%d" % number
                try:
                    sent.append((data, sc.publish_async(CHANNEL, data)))
                except natsync.Error:
                    self.unknown.add(data)
            for data, future in sent:
                try:
                    future.result()
                    self.acked.add(data)
                except (natsync.Error, TimeoutError):
                    self.unknown.add(data)
            time.sleep(0.05)
        self.answered(sc.close)

    def read(self, seen: dict[int, bytes], name: str, **options: object) -> None:
        """Takes messages of a durable, now and then closes it and subscribes again."""
        rng = random.Random(name)
        sc = self.connect(name)
        while not self.over.is_set():
            sub = self.answered(
                lambda: sc.subscribe(
                    CHANNEL, start=StartPosition.FIRST, ack_wait=2, manual_acks=True, **options
                )
            )
            if sub is None:
                break
            self.take(sub, seen, rng.randrange(500, 5000))
            self.answered(sub.close)
            self.counts["resumed"] += 1
        self.answered(sc.close)

    def take(self, sub: Subscription, seen: dict[int, bytes], most: int) -> None:
        for _ in range(most):
            try:
                msg = sub.next_msg(0.5)
            except natsync.NextMsgTimeoutError:
                if self.over.is_set():
                    return
                continue
            self.counts["redelivered"] += msg.redelivered
            if msg.sequence in seen and not msg.redelivered:
                self.counts["again"] += 1
            if seen.setdefault(msg.sequence, msg.data) != msg.data:
                self.faults.append(f"sequence {msg.sequence} has two payloads")
            try:
                msg.ack()
            except natsync.Error:
                pass  # it comes again

    def answered(self, call: Callable[[], object]) -> object:
        """The result of `call`, tried again while a server is away; None where that lasts too long, or where
        the one before was carried out."""
        until = time.monotonic() + 40
        while time.monotonic() < until:
            try:
                return call()
            except streaming.DuplicateDurableError:
                return self.faults.append("a durable was not closed")
            except (natsync.Error, TimeoutError):
                time.sleep(0.1)
        return self.faults.append("no answer for 40 s")

    def break_things(self, seconds: float, nats: NatsServer, stan: StreamingServer) -> None:
        end = time.monotonic() + seconds
        rng = random.Random(1)
        while time.monotonic() < end:
            time.sleep(min(rng.uniform(*OUTAGES), max(0.0, end - time.monotonic())))
            self.counts["outages"] += 1
            sig = rng.choice((SIGTERM, SIGKILL))
            if rng.random() < 0.7:
                stan.terminate(sig)
                self.counts["mended"] += mend(stan.store_folder)
                stan.start()
            else:
                nats.stop(sig)
                nats.start()
        time.sleep(3)

    def account(self) -> list[str]:
        """Everything that is wrong."""
        with self.connect("reader") as sc:
            last = sc.subscribe(CHANNEL, start=StartPosition.LAST_RECEIVED).next_msg(10).sequence
            with sc.subscribe(CHANNEL, start=StartPosition.FIRST) as sub:
                stored = {}
                while len(stored) < last:
                    msg = sub.next_msg(10)
                    stored[msg.sequence] = msg.data
        payloads = set(stored.values())
        found = {
            "stored more than once": len(stored) - len(payloads),
            "acknowledged, not stored": len(self.acked - payloads),
            "stored, never published": len(payloads - self.acked - self.unknown),
            "not delivered to the durable": len(stored.items() - self.durable.items()),
            "not delivered to the group": len(stored.items() - self.group.items()),
            "invented": len((self.durable.items() | self.group.items()) - stored.items()),
        }
        print(
            f"{len(stored)} stored, {len(self.acked)} acknowledged, {len(self.unknown)} unknown, "
            f"{len(self.unknown & payloads)} of them stored; {self.counts}"
        )
        return self.faults + [f"{count} {what}" for what, count in found.items() if count]


def mend(store: Path) -> int:
    """Cuts off half a record at the end of files in a store; returns how many had one.

    A record is its size (with a type in the high byte, but for messages), a CRC, and as many bytes
    (nats-streaming-server: stores/filestore.go, readRecord).
    """
    mended = 0
    for path in store.rglob("*.dat"):
        if path.name == "server.dat":
            continue
        data = path.read_bytes()
        most = 2**32 - 1 if path.name.startswith("msgs.") else 2**24 - 1
        end = following = 4  # after the version
        while following <= len(data):
            end = following
            size = int.from_bytes(data[end : end + 4], "little") & most
            following = end + 8 + size
        if end < len(data):
            os.truncate(path, end)
            mended += 1
    return mended


def run(seconds: float) -> list[str]:
    """Everything that went wrong."""
    with NatsServer() as nats, StreamingServer("-mm", "0", "-mb", "0", nats_url=nats.url) as stan:
        soak = Soak(nats.url)
        members = {"queue": "q", "durable": "g", "max_in_flight": 200}
        threads = [
            threading.Thread(target=soak.publish),
            threading.Thread(target=soak.publish_async),
            threading.Thread(
                target=soak.read, args=(soak.durable, "durable"), kwargs={"durable": "d"}
            ),
            *(
                threading.Thread(target=soak.read, args=(soak.group, name), kwargs=members)
                for name in ("member-1", "member-2")
            ),
        ]
        for thread in threads[2:] + threads[:2]:
            thread.start()
        soak.break_things(seconds, nats, stan)
        soak.over.set()
        for thread in threads[:2] + threads[2:]:
            thread.join(120)
        return soak.account()


def main() -> int:
    seconds = float(sys.argv[1]) if sys.argv[1:] else 60.0
    faults = run(seconds)
    print("\n".join(faults[:20]) or f"{seconds:g} s: every message is accounted for")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
