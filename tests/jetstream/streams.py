"""Streams with messages, and consumers of them, for the tests of what reads them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from itertools import islice

import natsync
from natsync._json import JSONObject
from natsync.errors import Error
from natsync.jetstream import (
    Consumer,
    ConsumerConfig,
    JetStream,
    JetStreamMsg,
    Stream,
    StreamConfig,
)

from tests.support.servers import NatsServer
from tests.support.waiting import eventually
from tests.support.wire import Wire

TIMEOUT = 10.0


def filled(js: JetStream, name: str, count: int, **options: object) -> Stream:
    """A stream in memory with `count` messages `0`, `1` ... on the subjects NAME.0, NAME.1 and NAME.2."""
    config = {"subjects": [f"{name}.>"], "storage": "memory", **options}
    stream = js.create_stream(StreamConfig(name, **config))  # type: ignore[arg-type]  # any of them
    publish(js, name, range(count))
    return stream


def publish(js: JetStream, name: str, numbers: Iterable[int]) -> None:
    """Publishes numbers to the stream; they are stored when it returns."""
    all_numbers = [*numbers]
    for number in all_numbers[:-1]:
        js.api.core.publish(f"{name}.{number % 3}", str(number).encode())
    for last in all_numbers[-1:]:  # stored after all that were published before it
        js.publish(f"{name}.{last % 3}", str(last).encode())


def publish_status(server: NatsServer, subject: str, line: str) -> None:
    """Publishes an empty message with a status, as a program does that passes on one that it got."""
    publish_block(server, subject, f"NATS/1.0 {line}\r\n\r\n".encode())


def publish_block(server: NatsServer, subject: str, block: bytes) -> None:
    """Publishes an empty message with this header block, which may be one that cannot be read."""
    with socket.create_connection((server.host, server.port)) as connection:
        wire = Wire(connection)
        wire.connect()
        size = len(block)
        wire.sub("stored")
        head = b"HPUB %s stored %d %d\r\n" % (subject.encode(), size, size)
        connection.sendall(head + block + b"\r\n")
        wire.expect("MSG", "stored")  # a flush alone says nothing of the stream


def durable(stream: Stream, name: str = "c", **options: object) -> Consumer:
    """A durable consumer."""
    config = ConsumerConfig(durable_name=name, **options)  # type: ignore[arg-type]  # any of them
    return stream.create_consumer(config)


def until_sent(js: JetStream, consumer: Consumer, count: int) -> None:
    """Returns when the server has sent `count` messages of the consumer, and this client has them.

    A flush alone says nothing of them: the server answers it while other threads of it deliver.
    """
    eventually(lambda: consumer.info().delivered.consumer_seq == count)
    js.api.core.flush()


def until_no_consumer(stream: Stream) -> None:
    """Returns when the stream has no consumer. Where nobody waits for the answer to a request to
    delete one, the server may handle a later request first."""
    eventually(lambda: not list(stream.consumer_names()))


def numbers(msgs: Iterable[JetStreamMsg], count: int | None = None) -> list[int]:
    """The numbers in `count` messages, or in all."""
    return [int(msg.data) for msg in islice(msgs, count)]


class LeaderlessStream:
    """A stream that the API lists, and that takes messages only after it was listed twice."""

    def __init__(self, nc: natsync.Client) -> None:
        self._nc = nc
        token = nc.new_inbox().rpartition(".")[2]
        self.js = nc.jetstream(prefix=f"leaderless.{token}")
        self.subject = f"leaderless.{token}.messages"
        self.listed = 0
        self._subs = [nc.subscribe(f"leaderless.{token}.STREAM.NAMES", handler=self._list)]

    def _list(self, msg: natsync.Msg) -> None:
        self.listed += 1
        if self.listed == 2:
            self._subs.append(self._nc.subscribe(self.subject, handler=self._store))
        msg.respond(b'{"total":1,"offset":0,"limit":1024,"streams":["S"]}')

    def _store(self, msg: natsync.Msg) -> None:
        msg.respond(b'{"stream":"S","seq":9}')

    def __enter__(self) -> LeaderlessStream:
        return self

    def __exit__(self, *_: object) -> None:
        for sub in self._subs:
            sub.unsubscribe()


class Errors:
    """What a reader got over, for `on_error`."""

    def __init__(self) -> None:
        self.all: list[Error] = []
        self._changed = threading.Condition()

    def __call__(self, error: Error) -> None:
        with self._changed:
            self.all.append(error)
            self._changed.notify_all()

    def wait_for(self, kind: type[Error], count: int = 1) -> Error:
        """The error number `count` of that kind."""

        def found() -> list[Error]:
            return [error for error in self.all if isinstance(error, kind)]

        with self._changed:
            assert self._changed.wait_for(lambda: len(found()) >= count, TIMEOUT), self.all
            return found()[count - 1]


def raise_it(error: Error) -> None:
    """An `on_error` that raises the errors that it gets."""
    raise error


class Gathered:
    """Messages that handlers got; `want` says after how many `wait` returns."""

    def __init__(self, act: Callable[[JetStreamMsg], object] = JetStreamMsg.ack) -> None:
        self.numbers: list[int] = []
        self._act = act
        self._changed = threading.Condition()

    def __call__(self, msg: JetStreamMsg) -> None:
        self._act(msg)
        with self._changed:
            self.numbers.append(int(msg.data))
            self._changed.notify_all()

    def wait(self, count: int) -> list[int]:
        """The numbers, as soon as there are that many different ones."""
        with self._changed:
            done = self._changed.wait_for(lambda: len(set(self.numbers)) >= count, TIMEOUT)
            assert done, f"{len(set(self.numbers))} of {count}"
            return list(self.numbers)


@contextmanager
def later(seconds: float, call: Callable[[], object]) -> Iterator[None]:
    """Calls it on another thread in a while; the thread has ended when the block has."""
    timer = threading.Timer(seconds, call)
    timer.start()
    try:
        yield
    finally:
        timer.join(TIMEOUT)


def unknown(value: object) -> Iterator[str]:
    """The fields of an answer that natsync only keeps."""
    if isinstance(value, JSONObject):
        yield from (f"{type(value).__name__}.{name}" for name in value.extra)
        value = [getattr(value, item.name) for item in fields(value)]
    if isinstance(value, (list, tuple)):
        for inner in value:
            yield from unknown(inner)
