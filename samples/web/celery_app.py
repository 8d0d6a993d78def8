"""Celery tasks that ask a NATS service.

    pip install natsync celery
    celery -A celery_app worker --pool prefork --concurrency 2

One client is made at module level. The worker forks its processes after that: the copy of each one connects
anew at its first call. Celery ends these processes without Python's exit functions, so a task that publishes
calls `flush` at its end.
"""

import os

from celery import Celery

import natsync

nc = natsync.connect(
    os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), name="celery", retry_on_failed_connect=True
)
app = Celery("prices", broker=os.environ.get("BROKER_URL"), backend=os.environ.get("RESULT_URL"))


@app.task(autoretry_for=[natsync.ConnectionReconnectingError], max_retries=3)
def price(item: str) -> str:
    answer = nc.request(f"price.{item}", timeout=2).data.decode()
    nc.publish("priced", item.encode())
    nc.flush(timeout=2)
    return answer
