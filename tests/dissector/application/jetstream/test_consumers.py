"""What a session shows of its consumers."""

from __future__ import annotations

import pytest

from dissect.nats.application.jetstream import consumers
from dissect.nats.application.jetstream.consumers import ConsumerRecord
from dissect.nats.application.jetstream.layer import JetStream
from dissect.nats.schema.records import Record

from tests.dissector.application.layer_talk import MS, Talk, values

TYPE = "io.nats.jetstream.api.v1."


def seen(talk: Talk) -> list[Record]:
    talk.close()
    return talk.of(ConsumerRecord)


def call(talk: Talk, api: str, answer: dict[str, object]) -> None:
    talk.pub(f"$JS.API.{api}", b"", "_INBOX.1")
    talk.msg("_INBOX.1", {"type": f"{TYPE}x", **answer})


def test_configuration_and_state_are_the_last_ones() -> None:
    talk = Talk(JetStream())
    config = {"durable_name": "C", "filter_subject": "a.>", "ack_policy": "explicit"}
    call(
        talk,
        "CONSUMER.CREATE.S.C.a.>",
        {"name": "C", "config": config, "num_pending": 7},
    )
    call(talk, "CONSUMER.PAUSE.S.C", {"paused": True})
    call(talk, "CONSUMER.INFO.S.X", {"error": {"code": 404, "err_code": 10014}})
    (row,) = seen(talk)
    names: tuple[str, ...] = (
        "consumer",
        "durable",
        "filter",
        "ack_policy",
        "num_pending",
        "paused",
        "created",
    )
    assert values([row], *names) == [("C", True, ["a.>"], "explicit", 7, True, 1)]


def test_an_ephemeral_is_named_by_the_answer_and_a_list_names_many() -> None:
    talk = Talk(JetStream())
    call(
        talk,
        "CONSUMER.CREATE.S",
        {"name": "eph", "config": {"filter_subjects": ["a", "b"]}},
    )
    call(talk, "CONSUMER.LIST.S", {"consumers": [{"name": "one", "config": {}}, {}, 1]})
    call(talk, "CONSUMER.DELETE.S.eph", {"success": True})
    assert values(seen(talk), "consumer", "filter", "deleted") == [
        ("eph", ["a", "b"], 1),
        ("one", None, 0),
    ]


def test_deliveries_acks_and_what_waits() -> None:
    talk = Talk(JetStream())
    talk.pub("$JS.API.CONSUMER.MSG.NEXT.S.C", {"batch": 9}, "_INBOX.p")
    for seq, pending, ack in ((1, 5, b""), (2, 8, b"+WPI"), (4, 2, b"-NAK")):
        reply = f"$JS.ACK.S.C.{1 if seq < 4 else 2}.{seq}.{seq}.0.{pending}"
        talk.msg("orders", b"abc", reply)
        talk.pub(reply, ack)
    (row,) = seen(talk)
    names: tuple[str, ...] = (
        "pulls",
        "pulled",
        "deliveries",
        "delivery_bytes",
        "redeliveries",
        "max_deliveries",
    )
    assert values([row], *names) == [(1, 9, 3, 9, 1, 2)]
    names = (
        "first_pending",
        "last_pending",
        "max_pending",
        "last_stream_seq",
        "missing",
    )
    assert values([row], *names) == [(5, 2, 8, 4, 1)]
    names = (
        "acks",
        "naks",
        "progress",
        "ack_median_ns",
        "ack_p99_ns",
        "age_median_ns",
    )
    assert values([row], *names) == [(1, 1, 1, MS, MS, 2 * MS)]


def test_heartbeats_and_flow_control_of_a_push_consumer() -> None:
    talk = Talk(JetStream())
    call(talk, "CONSUMER.CREATE.S", {"name": "P", "config": {"deliver_subject": "push"}})
    talk.msg("push", status=100, text="Idle Heartbeat")
    talk.msg("push", reply="$JS.FC.S.P.abcd", status=100, text="FlowControl Request")
    talk.pub("$JS.FC.S.P.abcd")
    talk.pub("$JS.FC.hub.hash.S.P.abcd")
    talk.pub("$JS.FC.S.OTHER.abcd")
    assert values(seen(talk), "consumer", "heartbeats", "flow_controls") == [("P", 2, 2)]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "_CONSUMERS", 2)
    talk = Talk(JetStream())
    for number in range(5):
        talk.msg("orders", b"", f"$JS.ACK.S.C{number}.1.1.1.0.0")
    assert len(seen(talk)) == 2
