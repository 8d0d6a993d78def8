"""Celery with NATS as its broker and result backend: tasks, results and remote control go through JetStream.

    pip install 'natsync[kombu]' celery
    celery -A celery_broker worker --concurrency 2

A task is deleted when it is done. It may take any time; but should its worker die before, another one gets it
after `visibility_timeout` seconds.
"""

import os
import time

from celery import Celery

import natsync.kombu

natsync.kombu.register()  # Celery knows nats:// from here on
URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
app = Celery("sums", broker=URL, backend=URL)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 2},
    worker_prefetch_multiplier=1,
)


@app.task(acks_late=True)  # type: ignore[untyped-decorator]  # Celery has no types
def add(a: int, b: int) -> int:
    return a + b


@app.task(acks_late=True)  # type: ignore[untyped-decorator]  # Celery has no types
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(acks_late=True)  # type: ignore[untyped-decorator]  # Celery has no types
def wait(seconds: float) -> str:
    time.sleep(seconds)
    return "done"
