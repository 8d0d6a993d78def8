"""The tables of the JetStream layer: their text columns and the order of their rows."""

from __future__ import annotations

from functools import partial
from operator import attrgetter

from ...schema.declaration import Table, text_columns
from .api import ApiRecord
from .consumers import ConsumerRecord
from .deliveries import DeliveryRecord
from .kv import KvRecord
from .layer import JETSTREAM
from .objects import ObjectRecord
from .publishes import PublishRecord
from .pulls import PullRecord
from .streams import StreamRecord

_table = partial(
    Table,
    time="ts_ns",
    position=attrgetter("ts_ns", "session", "number"),
    window=20_000,  # rows wait for answers and acks, and are larger than those of other tables
    layer=JETSTREAM,
    payloads=True,
)

API = _table(
    name="api",
    singular="API call",
    summary="List calls of the JetStream API, with their answers, and advisories.",
    row=ApiRecord,
    window=4000,
    text=text_columns(ApiRecord, "session ts_ns api stream consumer domain latency_ns error"),
)

PUBLISHES = _table(
    name="publishes",
    singular="publication",
    summary="List messages published to JetStream, with their acks.",
    row=PublishRecord,
    text=text_columns(
        PublishRecord,
        "session ts_ns subject msg_id expected_stream batch_id payload_bytes stream seq duplicate"
        " latency_ns error payload",
    ),
)

DELIVERIES = _table(
    name="deliveries",
    singular="delivery",
    summary="List messages that consumers delivered, with their acks.",
    row=DeliveryRecord,
    text=text_columns(
        DeliveryRecord,
        "session ts_ns stream consumer stream_seq delivered_count pending subject ack"
        " ack_latency_ns nak_delay_ns term_reason anomalies payload",
    ),
)

PULLS = _table(
    name="pulls",
    singular="pull",
    summary="List pull requests: what they got and how they ended.",
    row=PullRecord,
    text=text_columns(
        PullRecord,
        "session ts_ns stream consumer batch expires_ns group delivered end end_ns anomalies",
    ),
)

STREAMS = _table(
    name="streams",
    singular="stream",
    summary="List streams: configuration, state, publications and deliveries.",
    row=StreamRecord,
    position=attrgetter("ts_ns", "session", "number", "stream"),
    at_end=True,
    text=text_columns(
        StreamRecord,
        "session ts_ns stream domain subjects messages last_seq publishes publish_errors deliveries"
        " redeliveries acks naks terms max_pending deleted anomalies",
    ),
)

CONSUMERS = _table(
    name="consumers",
    singular="consumer",
    summary="List consumers: configuration, deliveries, acks, what waits for them.",
    row=ConsumerRecord,
    position=attrgetter("ts_ns", "session", "number", "stream", "consumer"),
    at_end=True,
    text=text_columns(
        ConsumerRecord,
        "session ts_ns stream consumer domain filter pulls deliveries redeliveries acks naks terms"
        " first_pending last_pending max_pending ack_median_ns ack_p99_ns ack_wait_ns max_deliver"
        " anomalies",
    ),
)

KV = _table(
    name="kv",
    singular="key-value operation",
    summary="List what happens in key-value buckets: puts, gets, deletes, watches.",
    row=KvRecord,
    position=attrgetter("ts_ns", "session", "number", "op"),
    text=text_columns(
        KvRecord,
        "session ts_ns bucket op key revision expected_revision value_bytes entries latency_ns error"
        " payload",
    ),
)

OBJECTS = _table(
    name="objects",
    singular="object operation",
    summary="List what happens in object stores: puts, gets, deletes, links.",
    row=ObjectRecord,
    position=attrgetter("ts_ns", "session", "number", "op"),
    text=text_columns(
        ObjectRecord, "session ts_ns bucket op name bytes chunks complete last_ns link error"
    ),
)
