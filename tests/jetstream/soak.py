"""JetStream in a cluster of three whose stream leader is killed every minute:
`python -m tests.jetstream.soak [SECONDS]`.

Two threads publish messages with ids, one waits for each acknowledgement and one has many under way. One
durable consumer is read by `consume` with several workers and plain acks, another one by `fetch` with
`ack_sync`, and an ordered consumer reads along. At the end every message is accounted for: what was
acknowledged is stored, once, where the acknowledgement says; what is stored was published; both durables
have got all of it, nothing came again after its ack was confirmed; the ordered consumer has got it in order,
once.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic

import natsync
from natsync.errors import Error
from natsync.jetstream import ConsumerConfig, JetStream, JetStreamMsg, PubAck, Stream, StreamConfig

from tests.support.jetstream import JETSTREAM
from tests.support.meshes import mesh
from tests.support.servers import NatsServer

EVERY = 60.0
"""Seconds between two kills; a run that is shorter than four of them has four."""
AWAY = 5.0
"""Seconds for which the killed server is away."""
PATIENCE = 60.0
PAUSE = 0.005
AT_ONCE = 50
NAME = "SOAK"


class Soak:
    """One run."""

    def __init__(self, servers: list[NatsServer]) -> None:
        self.servers = servers
        self.over = threading.Event()
        self.acked: dict[bytes, int] = {}
        """Sequences by payload, as the acknowledgements say."""
        self.unknown: set[bytes] = set()
        self.consumed: Counter[int] = Counter()
        self.fetched: Counter[int] = Counter()
        self.confirmed: set[int] = set()
        self.ordered: list[int] = []
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def connect(self) -> natsync.Client:
        return natsync.connect([each.url for each in self.servers], reconnect_wait=0.1)

    def publish(self, js: JetStream) -> None:
        number = 0
        while not self.over.wait(PAUSE):
            data = b"one-%d" % (number := number + 1)
            try:
                self.acked[data] = js.publish(f"{NAME}.one", data, msg_id=data.decode()).seq
            except (Error, TimeoutError) as error:
                self.unsure(data, error)

    def publish_async(self, js: JetStream) -> None:
        number = 0
        while not self.over.wait(AT_ONCE * PAUSE):
            sent: list[tuple[bytes, Future[PubAck]]] = []
            for _ in range(AT_ONCE):
                data = b"many-%d" % (number := number + 1)
                try:
                    future = js.publish_async(f"{NAME}.many", data, msg_id=data.decode())
                    sent.append((data, future))
                except (Error, TimeoutError) as error:
                    self.unsure(data, error)
            for data, future in sent:
                try:
                    self.acked[data] = future.result(PATIENCE).seq
                except (Error, TimeoutError) as error:
                    self.unsure(data, error)

    def unsure(self, data: bytes, error: Exception) -> None:
        self.unknown.add(data)
        self.counts[f"publish: {type(error).__name__}"] += 1

    def consume(self, msg: JetStreamMsg) -> None:
        """For the workers: each message counts when it is acknowledged."""
        self.consumed[msg.metadata.stream_seq] += 1
        msg.ack()

    def fetch(self, js: JetStream) -> None:
        consumer = js.consumer(NAME, "fetched")
        while not self.done(self.fetched):
            try:
                batch = consumer.fetch(20, timeout=1.0)
            except Error as error:
                self.counts[f"fetch: {type(error).__name__}"] += 1
                continue
            for msg in batch:
                sequence = msg.metadata.stream_seq
                if sequence in self.confirmed:
                    self.faults.append(f"sequence {sequence} came again after a confirmed ack")
                self.fetched[sequence] += 1
                try:
                    msg.ack_sync()
                    self.confirmed.add(sequence)
                except (Error, TimeoutError) as error:
                    self.counts[f"ack_sync: {type(error).__name__}"] += 1

    def read(self, msg: JetStreamMsg) -> None:
        self.ordered.append(msg.metadata.stream_seq)

    def done(self, seen: Counter[int]) -> bool:
        """Whether a reader may end: all is published, and it has got everything."""
        return self.last is not None and len(seen) >= self.last

    last: int | None = None
    """How many messages are stored, when nothing is published any more."""

    def report(self, error: Error) -> None:
        self.counts[f"reader: {type(error).__name__}"] += 1

    def kill_leaders(self, seconds: float, stream: Stream) -> None:
        end = monotonic() + seconds
        every = min(EVERY, seconds / 4)
        while end - monotonic() > every / 2:
            self.over.wait(every - AWAY)
            cluster = until_answered(stream.info).cluster
            assert cluster
            (leader,) = (each for each in self.servers if each.name == cluster.leader)
            leader.kill()
            self.counts["kills"] += 1
            self.over.wait(AWAY)
            leader.start()

    def account(self, js: JetStream) -> list[str]:
        """Everything that is wrong."""
        stored: dict[int, bytes] = {}
        with js.ordered_consumer(NAME).messages() as messages:
            while len(stored) < (self.last or 0):
                msg = messages.next(PATIENCE)
                stored[msg.metadata.stream_seq] = msg.data
        payloads = set(stored.values())
        found = {
            "stored more than once": len(stored) - len(payloads),
            "acknowledged, not stored there": sum(
                stored.get(sequence) != data for data, sequence in self.acked.items()
            ),
            "stored, never published": len(payloads - self.acked.keys() - self.unknown),
            "not delivered by consume": len(stored.keys() - self.consumed.keys()),
            "not delivered by fetch": len(stored.keys() - self.fetched.keys()),
            "invented": len((self.consumed | self.fetched).keys() - stored.keys()),
        }
        if self.ordered != sorted(stored):
            self.faults.append(f"the ordered consumer got {len(self.ordered)} of {len(stored)}")
        again = sum(self.consumed.values()) - len(self.consumed)
        unconfirmed = sum(self.fetched.values()) - len(self.fetched)
        print(
            f"{len(stored)} stored, {len(self.acked)} acknowledged, {len(self.unknown)} unknown, "
            f"{len(self.unknown & payloads)} of them stored; delivered again: {again} by consume, "
            f"{unconfirmed} by fetch; {dict(sorted(self.counts.items()))}"
        )
        return self.faults + [f"{count} {what}" for what, count in found.items() if count]


def until_answered(
    call: Callable[[], natsync.jetstream.StreamInfo],
) -> natsync.jetstream.StreamInfo:
    """The answer, as soon as there is a leader."""
    end = monotonic() + PATIENCE
    while True:
        try:
            return call()
        except (Error, TimeoutError):
            if monotonic() > end:
                raise
            threading.Event().wait(0.2)


def run(seconds: float) -> list[str]:
    """Everything that went wrong."""
    with mesh(3, JETSTREAM) as servers:
        soak = Soak(servers)
        with soak.connect() as nc, soak.connect() as reader_nc:
            js, readers = nc.jetstream(timeout=10.0), reader_nc.jetstream(timeout=5.0)
            config = StreamConfig(NAME, subjects=[f"{NAME}.>"], num_replicas=3)
            brief = nc.jetstream(timeout=1.0)  # without a leader nobody answers
            until_answered(lambda: brief.create_stream(config).info())
            stream = js.stream(NAME)
            for name in ("consumed", "fetched"):
                stream.create_consumer(ConsumerConfig(durable_name=name, ack_wait=5.0))
            publishers = [
                threading.Thread(target=soak.publish, args=(js,)),
                threading.Thread(target=soak.publish_async, args=(js,)),
            ]
            fetcher = threading.Thread(target=soak.fetch, args=(readers,))
            consuming = readers.consumer(NAME, "consumed").consume(
                soak.consume, workers=4, on_error=soak.report, expires=5.0
            )
            reading = readers.ordered_consumer(NAME).consume(soak.read, on_error=soak.report)
            with consuming, reading:
                for thread in (fetcher, *publishers):
                    thread.start()
                soak.kill_leaders(seconds, stream)
                soak.over.set()
                for thread in publishers:
                    thread.join(2 * PATIENCE)
                soak.last = until_answered(stream.info).state.messages
                fetcher.join(PATIENCE)
                end = monotonic() + PATIENCE
                while monotonic() < end and not (
                    soak.done(soak.consumed) and len(soak.ordered) >= soak.last
                ):
                    threading.Event().wait(0.1)
            return soak.account(js)


def main() -> int:
    seconds = float(sys.argv[1]) if sys.argv[1:] else 60.0
    faults = run(seconds)
    print("\n".join(faults[:20]) or f"{seconds:g} s: every message is accounted for")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
