"""What clients of JetStream, key-value buckets, object stores and services say: exchanges for `generate`.

Each function is one exchange; `traffic.tell` counts the rows that the tables above the frames make of it.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.bench.generate import Client, Traffic

BATCH = 10
CHUNKS = 4
CHUNK_BYTES = 8192

_INFO = {
    "type": "io.nats.jetstream.api.v1.consumer_info_response",
    "stream_name": "EVENTS",
    "name": "workers",
    "created": "2026-11-03T10:00:00.123456789Z",
    "config": {
        "durable_name": "workers",
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": 30_000_000_000,
        "max_deliver": 5,
        "filter_subject": "orders.>",
        "replay_policy": "instant",
        "max_waiting": 512,
        "max_ack_pending": 1000,
        "num_replicas": 3,
    },
    "delivered": {"consumer_seq": 1, "stream_seq": 1},
    "ack_floor": {"consumer_seq": 0, "stream_seq": 0},
    "num_ack_pending": 1,
    "num_redelivered": 0,
    "num_waiting": 1,
    "num_pending": 7,
    "ts": "2026-11-03T10:00:01.123456789Z",
}


def _with_headers(op: bytes, line: bytes, fields: bytes, body: bytes) -> bytes:
    block = b"NATS/1.0" + fields + b"\r\n\r\n"
    sizes = b"%d %d" % (len(block), len(block) + len(body))
    return b"%b %b %b\r\n%b%b\r\n" % (op, line, sizes, block, body)


def _ask(client: Client, subject: bytes, reply: bytes, body: bytes, fields: bytes = b"") -> None:
    line = b"%b %b" % (subject, reply)
    if fields:
        sent = _with_headers(b"HPUB", line, fields, body)
    else:
        sent = b"PUB %b %d\r\n%b\r\n" % (line, len(body), body)
    client.connection.send(0, sent, answered=True)


def _answer(client: Client, reply: bytes, body: bytes, fields: bytes = b"") -> None:
    line = b"%b %d" % (reply, client.inbox_sid)
    if fields:
        client.connection.send(1, _with_headers(b"HMSG", line, fields, body))
    else:
        client.connection.send(1, b"MSG %b %d\r\n%b\r\n" % (line, len(body), body))


def _write(
    traffic: Traffic, client: Client, stream: bytes, subject: bytes, body: bytes, fields: bytes
) -> None:
    """A publication and its PubAck."""
    reply = traffic.new_reply(client)
    _ask(client, subject, reply, body, fields)
    ack = b'{"stream":"%b","seq":%d}' % (stream, traffic.next_seq())
    _answer(client, reply, ack)
    traffic.count(**{"HPUB" if fields else "PUB": 1, "MSG": 1})
    traffic.tell(publishes=1)


def publish(traffic: Traffic) -> None:
    """Publications that wait for their PubAcks, half of them with an id."""
    (client,) = traffic.clients_for("caller")
    for _, subject, body in traffic.messages():
        token = traffic.token()
        fields = b"\r\nNats-Msg-Id: " + token if int(token, 16) % 2 else b""
        _write(traffic, client, b"EVENTS", subject, body, fields)


def _acks(traffic: Traffic, client: Client, stream: bytes, consumer: bytes) -> bytes:
    seq = traffic.next_seq()
    now_ns = traffic.recorder.now_us * 1000
    numbers = b"1.%d.%d.%d.%d" % (seq, seq, now_ns, 7)
    return b"$JS.ACK.%b.%b-%d.%b" % (stream, consumer, client.number, numbers)


def fetch(traffic: Traffic) -> None:
    """A pull request, its messages, and their acks; every fifth one ends with a status."""
    (client,) = traffic.clients_for("caller")
    reply = traffic.new_reply(client)
    subject = b"$JS.API.CONSUMER.MSG.NEXT.EVENTS.workers-%d" % client.number
    body = b'{"batch":%d,"expires":4900000000,"idle_heartbeat":2450000000}' % BATCH
    _ask(client, subject, reply, body)
    is_short = traffic.one_in(5)
    acks = []
    for _ in range(BATCH // 2 if is_short else BATCH):
        (_, its, content), ack = traffic.messages()[0], _acks(
            traffic, client, b"EVENTS", b"workers"
        )
        line = b"%b %d %b %d" % (its, client.inbox_sid, ack, len(content))
        client.connection.send(1, b"MSG %b\r\n%b\r\n" % (line, content))
        acks.append(b"PUB %b 4\r\n+ACK\r\n" % ack)
    if is_short:
        _answer(client, reply, b"", b" 408 Request Timeout\r\nNats-Pending-Messages: 5")
        traffic.count(HMSG=1)
    client.connection.send(0, b"".join(acks))
    traffic.count(PUB=1 + len(acks), MSG=len(acks))
    traffic.tell(pulls=1, deliveries=len(acks))


def push(traffic: Traffic) -> None:
    """Messages of a push consumer, each acknowledged at once; now and then an idle heartbeat."""
    (client,) = traffic.clients_for("reader")
    messages = traffic.messages()
    for sid, subject, body in messages:
        ack = _acks(traffic, client, b"EVENTS", b"pushed")
        line = b"%b %d %b %d" % (subject, sid, ack, len(body))
        client.connection.send(1, b"MSG %b\r\n%b\r\n" % (line, body), answered=True)
        client.connection.send(0, b"PUB %b 0\r\n\r\n" % ack)
    traffic.count(PUB=len(messages), MSG=len(messages))
    traffic.tell(deliveries=len(messages))


def put(traffic: Traffic) -> None:
    """A key is written, half of the time only if it is new."""
    (client,) = traffic.clients_for("caller")
    key = b"$KV.settings." + traffic.token()
    fields = b"\r\nNats-Expected-Last-Subject-Sequence: 0" if traffic.one_in(2) else b""
    _write(traffic, client, b"KV_settings", key, traffic.body(), fields)
    traffic.tell(kv=1)


def get(traffic: Traffic) -> None:
    """A key is read: a direct get."""
    (client,) = traffic.clients_for("caller")
    key, reply = b"$KV.settings." + traffic.token(), traffic.new_reply(client)
    _ask(client, b"$JS.API.DIRECT.GET.KV_settings." + key, reply, b"")
    fields = b"\r\nNats-Stream: KV_settings\r\nNats-Subject: %b\r\nNats-Sequence: %d" % (
        *(key, traffic.next_seq()),
    )
    fields += b"\r\nNats-Time-Stamp: 2026-11-03T10:00:00.123456789Z"
    _answer(client, reply, traffic.body(), fields)
    traffic.count(PUB=1, HMSG=1)
    traffic.tell(api=1, kv=1)


def put_object(traffic: Traffic) -> None:
    """An object is stored: chunks, then its meta message."""
    (client,) = traffic.clients_for("caller")
    nuid, whole = b"%022d" % traffic.next_seq(), sha256()
    for _ in range(CHUNKS):
        chunk = (traffic.body() * CHUNK_BYTES)[:CHUNK_BYTES]
        whole.update(chunk)
        _write(traffic, client, b"OBJ_files", b"$O.files.C." + nuid, chunk, b"")
    meta = {
        "name": nuid.decode(),
        "nuid": nuid.decode(),
        "bucket": "files",
        "size": CHUNKS * CHUNK_BYTES,
        "chunks": CHUNKS,
        "digest": "SHA-256=" + urlsafe_b64encode(whole.digest()).decode(),
    }
    body = json.dumps(meta).encode()
    subject = b"$O.files.M." + urlsafe_b64encode(nuid)
    _write(traffic, client, b"OBJ_files", subject, body, b"\r\nNats-Rollup: sub")
    traffic.tell(objects=1)


def ask_service(traffic: Traffic) -> None:
    """A request to a service; one in ten is answered with an error."""
    (client,) = traffic.clients_for("caller")
    reply = traffic.new_reply(client)
    _ask(client, b"prices.get", reply, traffic.body())
    is_error = traffic.one_in(10)
    fields = (
        b"\r\nNats-Service-Error: no price\r\nNats-Service-Error-Code: 404" if is_error else b""
    )
    _answer(client, reply, traffic.body(), fields)
    traffic.count(**{"PUB": 1, "HMSG" if fields else "MSG": 1})


def info(traffic: Traffic) -> None:
    """A call of the API whose answer describes a consumer."""
    (client,) = traffic.clients_for("caller")
    reply = traffic.new_reply(client)
    _ask(client, b"$JS.API.CONSUMER.INFO.EVENTS.workers", reply, b"")
    _answer(client, reply, json.dumps(_INFO).encode())
    traffic.count(PUB=1, MSG=1)
    traffic.tell(api=1)


EXCHANGES: tuple[Callable[[Traffic], None], ...] = (
    *[publish] * 6,
    *[fetch] * 4,
    *[push] * 4,
    *[put] * 4,
    *[get] * 4,
    put_object,
    *[ask_service] * 3,
    info,
)
