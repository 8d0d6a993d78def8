"""Metrics for Prometheus: messages, requests and handlers, by subject (pip install prometheus-client)."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import Counter, Histogram, generate_latest

import natsync
from natsync import Client, Msg
from natsync.headers import HeadersLike
from natsync.instrumentation import Instrumentation
from natsync.message import Data

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
SENT = Counter("nats_sent", "Messages and requests", ["operation", "subject", "error"])
TOOK = Histogram("nats_seconds", "Time until the message is buffered or answered", ["operation"])
HANDLED = Histogram("nats_handler_seconds", "Time in handlers", ["subject"])


class Metrics(Instrumentation):
    def begin(
        self, client: Client, operation: str, subject: str, data: Data, headers: HeadersLike | None
    ) -> tuple[object, HeadersLike | None]:
        shown = "(inbox)" if subject.startswith("_INBOX.") else subject  # few values of the label
        return (operation, shown, time.monotonic()), headers

    def end(self, token: Any, error: BaseException | None) -> None:
        operation, subject, start = token
        SENT.labels(operation, subject, type(error).__name__ if error else "").inc()
        TOOK.labels(operation).observe(time.monotonic() - start)

    @contextmanager
    def handling(self, client: Client, msg: Msg, subject: str, queue: str) -> Iterator[None]:
        with HANDLED.labels(subject).time():
            yield


with natsync.connect(URL, name="sample", instrumentation=Metrics()) as nc:
    nc.subscribe("greet.*", handler=lambda msg: msg.respond(b"hello"))
    for name in ("ada", "grace"):
        nc.request(f"greet.{name}")
    try:
        nc.request("nobody.listens")
    except natsync.NoRespondersError:
        pass
    nc.drain()

# A service would call prometheus_client.start_http_server(8000) and let Prometheus ask.
for line in sorted(generate_latest().decode().splitlines()):
    if line.startswith(("nats_sent_total", "nats_handler_seconds_count")):
        print(line)
