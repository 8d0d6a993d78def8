"""Celery and kombu on NATS: a kombu transport whose queues are JetStream streams.

>>> natsync.kombu.register()
>>> app = celery.Celery("orders", broker="nats://127.0.0.1:4222")

A message stays in its queue until it is acknowledged. While a worker lives, the transport
reports its messages to the server as in progress, however long a task takes; the messages of a
worker that has died go to another worker after `visibility_timeout`.

With `backend="nats://127.0.0.1:4222"`, Celery keeps its results in a key-value bucket.

Needs kombu, the extra `kombu`. docs/celery.md is the manual, with a table of all options.
"""

from .channel import Channel
from .transport import Transport, register

__all__ = ["Channel", "Transport", "register"]
