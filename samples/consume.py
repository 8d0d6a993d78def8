"""A work queue: messages fetched, handled by threads, delivered again; then the stream read in order."""

import os
import threading

import natsync
from natsync.jetstream import ConsumerConfig, JetStreamMsg, StreamConfig

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")

with natsync.connect(URL, name="sample") as nc:
    js = nc.jetstream()
    stream = js.create_stream(
        StreamConfig("SAMPLE_JOBS", subjects=["sample.jobs.*"], storage="memory")
    )
    try:
        for number in range(100):
            js.publish(f"sample.jobs.{number % 4}", str(number).encode())
        consumer = stream.create_consumer(ConsumerConfig(durable_name="worker", ack_wait=10))

        for msg in consumer.fetch(10, timeout=5):
            msg.ack()
        msg = consumer.next()
        print(msg.data.decode(), msg.metadata.stream_seq, msg.metadata.num_pending)
        msg.nak()  # deliver it again

        done = threading.Semaphore(0)

        def handle(msg: JetStreamMsg) -> None:
            if msg.metadata.num_delivered == 2:
                print("again:", msg.data.decode())
            msg.ack_sync()  # returns when the server has it
            done.release()

        with consumer.consume(handle, workers=4, on_error=print) as consuming:
            for _ in range(90):
                if not done.acquire(timeout=30):
                    raise TimeoutError("no message for 30 s")
            consuming.drain()
        print(consumer.info().num_ack_pending, "left")

        config = ConsumerConfig(filter_subject="sample.jobs.3")
        with js.ordered_consumer(stream.name, config).messages() as messages:
            print(messages.num_pending, [int(messages.next(5).data) for _ in range(5)])
    finally:
        js.delete_stream(stream.name)
