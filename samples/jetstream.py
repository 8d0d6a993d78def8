"""A stream: messages stored once and read back, published in a window and in a batch; a refusal.

The batch needs nats-server 2.12.
"""

import os

import natsync
from natsync.jetstream import StreamConfig, WrongLastSequenceError

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")

with natsync.connect(URL, name="sample") as nc:
    js = nc.jetstream()
    stream = js.create_stream(
        StreamConfig("SAMPLE_ORDERS", subjects=["sample.orders.>"], allow_atomic=True)
    )
    try:
        for attempt in range(2):
            ack = js.publish("sample.orders.new", b"two teapots", msg_id="1")
            print(ack.seq, ack.duplicate)

        futures = [js.publish_async("sample.orders.new", b"a cup") for _ in range(100)]
        print(js.wait_all(10), futures[-1].result().seq)

        with js.atomic_batch() as batch:
            batch.add("sample.orders.paid", b"1")
            batch.add("sample.orders.paid", b"2")
            print(batch.commit("sample.orders.paid", b"3").batch_count)

        try:
            js.publish("sample.orders.new", expected_last_subject_seq=7)
        except WrongLastSequenceError as error:
            print(error.last_seq)

        print(stream.get_last_msg("sample.orders.paid").data.decode())
        print(stream.info(subjects_filter="sample.orders.*").state.subjects)
    finally:
        js.delete_stream(stream.name)
