"""The same for the rules about JetStream, buckets, object stores, requests and services."""

from __future__ import annotations

import json
from datetime import datetime, timezone

from dissect.nats.application.jetstream.consumers import ConsumerRecord
from dissect.nats.application.jetstream.deliveries import DeliveryRecord
from dissect.nats.application.jetstream.objects import ObjectRecord
from dissect.nats.application.servers import ServerRecord
from dissect.nats.application.streaming.records import StreamingRecord
from dissect.nats.schema.records import Record

from tests.dissector.audit.cases import Case, unserved
from tests.support.audit import SESSION
from tests.support.audit import session as row
from tests.support.nats_session import Step, call, msg, pub, session
from tests.support.pcapwriter import START_NS, Conversation

OK = {"type": "io.nats.jetstream.api.v1.answer", "success": True}


def fault(code: int, err_code: int, text: str) -> dict[str, object]:
    """An error as JetStream says it."""
    return {"code": code, "err_code": err_code, "description": text}


def failed(code: int, err_code: int) -> dict[str, object]:
    """An answer of the JetStream API that is an error."""
    return {"type": OK["type"], "error": fault(code, err_code, "no")}


def waiting(*moments: tuple[int, int]) -> list[Record]:
    """Deliveries of a consumer, each after some seconds, after which so many messages wait."""
    made = deliveries(len(moments), 0, count=1)
    for each, (seconds, pending) in zip(made, moments):
        assert isinstance(each, DeliveryRecord)
        each.ts_ns, each.pending = seconds * 10**9, pending
        each.consumer = f"worker-{len(moments)}-{moments[0][1]}"
    return made


def backlog(seconds: float) -> list[Conversation]:
    """An answer of a server whose clock is ahead by so many seconds."""
    moment = datetime.fromtimestamp(START_NS / 1e9 + seconds, timezone.utc)
    answer = {**OK, "ts": moment.isoformat().replace("+00:00", "Z")}
    return [session(call("STREAM.INFO.ORDERS", answer))]


def asks(number: int) -> list[Step]:
    """Requests that come through an import."""
    headers = {"Nats-Request-Info": '{"acc":"A","rtt":100}'}
    return [msg("divide", b"x", f"_INBOX.a.{each}", headers=headers) for each in range(number)]


def advisory(name: str, event: str, seconds: float = 0) -> list[Conversation]:
    """A client that hears an advisory."""
    moment = datetime.fromtimestamp(START_NS / 1e9 + seconds, timezone.utc)
    content = {
        "timestamp": moment.isoformat().replace("+00:00", "Z"),
        "type": f"io.nats.jetstream.advisory.v1.{event}",
        "stream": "ORDERS",
    }
    subject = f"$JS.EVENT.ADVISORY.{name}"
    return [
        session(">SUB $JS.EVENT.ADVISORY.> 2", msg(subject, json.dumps(content).encode(), sid="2"))
    ]


def calls(api: str, number: int, apart: float = 0.1) -> list[Conversation]:
    """A connection with several calls that succeed."""
    steps: list[Step] = []
    for each in range(number):
        steps += [apart, *call(f"{api}.S{each}", OK)]
    return [session(*steps)]


def published(**answer: object) -> list[Conversation]:
    """A message for JetStream, and its ack."""
    ack = msg("_INBOX.app.1", json.dumps({"stream": "ORDERS", "seq": 0, **answer}).encode())
    return [session(pub("orders.new", b"x", "_INBOX.app.1", {"Nats-Msg-Id": "1"}), ack)]


def consumer(**columns: object) -> list[Record]:
    values = {"session": SESSION, "number": 1, "ts_ns": 1, "last_ns": 2, "kind": "client"}
    more = {"stream": "ORDERS", "consumer": "worker", **columns}
    return [ConsumerRecord(**values, **more)]  # type: ignore[arg-type]  # columns of any type


def deliveries(number: int, apart_ns: int, count: int = 2) -> list[Record]:
    return [
        DeliveryRecord(
            session=SESSION,
            number=each + 1,
            ts_ns=each * apart_ns,
            kind="client",
            stream="ORDERS",
            consumer="worker",
            stream_seq=each,
            consumer_seq=each,
            delivered_count=count,
            pending=0,
            stored_ns=0,
        )
        for each in range(number)
    ]


def stored(key: str, bucket: str = "config", op: str = "put") -> list[Step]:
    """A write to a key-value bucket, with its ack."""
    ack = json.dumps({"stream": f"KV_{bucket}", "seq": 1}).encode()
    headers = {"delete": {"KV-Operation": "DEL"}}.get(op)
    return [pub(f"$KV.{bucket}.{key}", b"x", "_INBOX.app.1", headers), msg("_INBOX.app.1", ack)]


def looked_up(key: str, code: int) -> list[Step]:
    """A read of a key that fails."""
    answer = failed(code, 10008)
    return call("STREAM.MSG.GET.KV_config", answer, last_by_subj=f"$KV.config.{key}")


def deleted(number: int, apart: float) -> list[Conversation]:
    steps: list[Step] = []
    for each in range(number):
        steps += [apart, *stored(f"key{each}", op="delete")]
    return [session(*steps)]


def an_object(**columns: object) -> list[Record]:
    values: dict[str, object] = {"session": SESSION, "number": 1, "ts_ns": 1, "kind": "client"}
    values |= {"bucket": "plans", "name": "roof", "op": "get", "first_ns": 1, "last_ns": 2}
    return [row(), ObjectRecord(**(values | columns))]  # type: ignore[arg-type]  # columns of any type


def asked(number: int, answer: bool, error: bool = False, apart: float = 0.1) -> list[Conversation]:
    """Requests that are answered or not, perhaps with an error of the service."""
    steps: list[Step] = []
    headers = {"Nats-Service-Error-Code": "500", "Nats-Service-Error": "no"} if error else None
    for each in range(number):
        steps += [apart, pub("divide", b"", f"_INBOX.app.{each}")]
        if answer:
            steps.append(msg(f"_INBOX.app.{each}", b"x", headers=headers))
    return [session(*steps)]


def streaming(**columns: object) -> list[Record]:
    values: dict[str, object] = {"session": SESSION, "number": 1, "ts_ns": 1, "kind": "client"}
    values |= {"cluster_id": "test", "client_id": "me", "op": "connect", "evidence": "subject"}
    return [StreamingRecord(**(values | columns))]  # type: ignore[arg-type]  # columns of any type


def server(cluster: str) -> list[Record]:
    return [ServerRecord(server_id="NA", server_name="a", cluster=cluster, first_ns=1, last_ns=1)]


CASES: dict[str, tuple[Case, Case]] = {
    "stream-deleted": (
        "orders-2.15.1",
        [session(call("STREAM.DELETE.ORDERS", failed(404, 10059)))],
    ),
    "stream-purged": (
        "orders-2.15.1",
        [session(call("STREAM.PURGE.KV_config", OK, filter="$KV.config.a"))],
    ),
    "message-deleted": (
        calls("STREAM.MSG.DELETE", 1),
        [session(call("STREAM.MSG.DELETE.ORDERS", failed(400, 10057)))],
    ),
    "consumer-deleted": ("orders-2.15.1", calls("CONSUMER.INFO", 1)),
    "mass-destruction": (
        calls("STREAM.DELETE", 5) + calls("STREAM.DELETE", 10),
        calls("STREAM.DELETE", 9) + calls("STREAM.PURGE", 12, 60),
    ),
    "snapshot-taken": (calls("STREAM.SNAPSHOT", 1), calls("STREAM.INFO", 1)),
    "stream-restored": (calls("STREAM.RESTORE", 1), calls("STREAM.CREATE", 1)),
    "api-errors": (
        [session(call("STREAM.CREATE.ORDERS", failed(503, 10023)))],
        [session(call("STREAM.INFO.ORDERS", failed(404, 10059)))],
    ),
    "resources-exhausted": (
        [session(call("STREAM.CREATE.ORDERS", failed(500, 10047)))],
        [session(call("STREAM.CREATE.ORDERS", failed(400, 10058)))],
    ),
    "publish-refused": (
        published(error=fault(503, 10077, "maximum messages exceeded")),
        published(error=fault(400, 10071, "wrong last sequence: 5")),
    ),
    "publish-unserved": (
        "orders-2.15.1",
        published(error=fault(503, 10077, "maximum messages exceeded")),
    ),
    "consumer-backlog": (consumer(max_pending=10_000), consumer(max_pending=9_999)),
    "unacknowledged": (consumer(num_ack_pending=1000), consumer(num_ack_pending=999)),
    "late-acks": ("poison", "orders-2.15.1"),
    "acks-without-effect": ("foreign", "poison"),
    "consumer-never-acknowledged": ("stuck", "poison"),
    "consumer-without-messages": ("filter", "stuck"),
    "message-id-reused": ("duplicates", published() + published(duplicate=True)),
    "stream-lost": ("quorum", "orders-2.15.1"),
    "stream-without-leader": ("quorum", "orders-2.15.1"),
    "messages-given-up": ("poison", "orders-2.15.1"),
    "redelivery-storm": (
        deliveries(50, 10**9),
        deliveries(60, 2 * 10**9) + deliveries(60, 10**8, count=1),
    ),
    "max-deliveries-reached": ("orders-2.15.1", "jetstream-2.15.1"),
    "message-terminated": ("orders-2.15.1", "jetstream-2.15.1"),
    "quorum-lost": (
        advisory("STREAM.QUORUM_LOST.ORDERS", "stream_quorum_lost"),
        advisory("STREAM.LEADER_ELECTED.ORDERS", "stream_leader_elected"),
    ),
    "api-calls-dropped": (
        advisory("API.LIMIT_REACHED", "api_limit_reached"),
        advisory("STREAM.CREATED.ORDERS", "stream_action"),
    ),
    "secret-in-clear": (
        [session(stored("db.password"))],
        [session(stored("db.host"), looked_up("db.password", 404), looked_up("db.password", 503))],
    ),
    "secret-by-name": ([session(stored("API_KEY"))], [session(stored("tokens-per-second"))]),
    "mass-deletion-of-keys": (deleted(20, 1), deleted(19, 1) + deleted(40, 4)),
    "object-digest-wrong": (an_object(digest_ok=False), an_object(digest_ok=True)),
    "large-object-read": (
        an_object(bytes=100_000_000),
        an_object(bytes=99_999_999) + an_object(bytes=100_000_000, op="put"),
    ),
    "objects-exported": (
        an_object(bytes=600_000_000) + an_object(bytes=400_000_000)[1:],
        an_object(bytes=600_000_000)
        + an_object(bytes=600_000_000, ts_ns=2 * 3600 * 10**9)[1:]
        + an_object(bytes=10**9, op="put")[1:],
    ),
    "transfer-above-baseline": (
        [row(bytes_responder=size) for size in (10**6, 10**6, 10**8)],
        [row(bytes_responder=size) for size in (10**6 + 10**5, 10**6 + 10**5, 10**8)]
        + [row(bytes_responder=99_999_999), row(bytes_responder=10**9, kind="route")],
    ),
    "backlog-growing": (
        waiting((0, 999), (500, 4000), (599, 10_000)),
        waiting((0, 999), (600, 10_000))
        + waiting((0, 10_000), (9, 10))
        + waiting((0, 0), (1, 9_999)),
    ),
    "clock-skew": (
        backlog(2.5),
        backlog(0.9) + backlog(-0.5) + advisory("STREAM.QUORUM_LOST.ORDERS", "quorum", -5),
    ),
    "client-info-forged": (
        [session(pub("admin", b"x", headers={"Nats-Request-Info": '{"acc":"A"}'}))],
        [session(asks(1), pub("admin", b"x", headers={"Info": "a"}))],
    ),
    "imported-service-flooded": (
        [session(asks(1000))],
        [session(asks(999), msg("divide", b"x", "_INBOX.a.1"))],
    ),
    "large-transfer": (
        [row(bytes_responder=10**9)],
        [row(bytes_responder=10**9 - 1), row(bytes_responder=10**9, kind="route")],
    ),
    "no-responders": (unserved(["absent"] * 10), unserved(["absent"] * 9)),
    "unanswered-requests": (
        asked(10, answer=False),
        asked(9, answer=False) + asked(20, answer=True),
    ),
    "service-errors": (
        asked(10, answer=True, error=True),
        asked(9, answer=True, error=True) + asked(20, answer=True),
    ),
    "cluster-without-name": (server("b0nDXyYhPZFpHjtTz9qXqQ"), server("east")),
    "duplicate-client-id": (
        streaming(error="stan: clientID already registered"),
        streaming(error="stan: invalid publish request") + streaming(),
    ),
}
