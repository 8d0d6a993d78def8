"""What a session shows of its consumers."""

from __future__ import annotations

import pytest

from dissect.nats.application.jetstream import used
from dissect.nats.application.jetstream.consumers import ConsumerRecord
from dissect.nats.application.jetstream.layer import JetStream
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import Record

from tests.dissector.application.scripted_session import MS, ScriptedSession, values

TYPE = "io.nats.jetstream.api.v1."


def rows_of(session: ScriptedSession) -> list[Record]:
    session.close()
    return session.of(ConsumerRecord)


def call(session: ScriptedSession, api: str, answer: dict[str, object]) -> None:
    session.pub(f"$JS.API.{api}", b"", "_INBOX.1")
    session.msg("_INBOX.1", {"type": f"{TYPE}x", **answer})


def test_configuration_and_state_are_the_last_ones() -> None:
    session = ScriptedSession(JetStream())
    config = {"durable_name": "C", "filter_subject": "a.>", "ack_policy": "explicit"}
    call(
        session,
        "CONSUMER.CREATE.S.C.a.>",
        {"name": "C", "config": config, "num_pending": 7},
    )
    call(session, "CONSUMER.PAUSE.S.C", {"paused": True})
    call(session, "CONSUMER.INFO.S.X", {"error": {"code": 404, "err_code": 10014}})
    (row,) = rows_of(session)
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


def test_a_consumer_is_no_longer_paused_once_an_answer_leaves_that_out() -> None:
    session = ScriptedSession(JetStream())
    call(session, "CONSUMER.INFO.S.C", {"name": "C", "config": {}, "paused": True})
    call(session, "CONSUMER.INFO.S.C", {"name": "C", "config": {}})
    call(session, "CONSUMER.INFO.S.D", {"name": "D", "config": {}})
    assert values(rows_of(session), "consumer", "paused") == [("C", False), ("D", None)]


def test_an_ephemeral_is_named_by_the_answer_and_a_list_names_many() -> None:
    session = ScriptedSession(JetStream())
    call(
        session,
        "CONSUMER.CREATE.S",
        {"name": "eph", "config": {"filter_subjects": ["a", "b"]}},
    )
    call(session, "CONSUMER.LIST.S", {"consumers": [{"name": "one", "config": {}}, {}, 1]})
    call(session, "CONSUMER.DELETE.S.eph", {"success": True})
    assert values(rows_of(session), "consumer", "filter", "deleted") == [
        ("eph", ["a", "b"], 1),
        ("one", None, 0),
    ]


def test_deliveries_acks_and_what_waits() -> None:
    session = ScriptedSession(JetStream())
    session.pub("$JS.API.CONSUMER.MSG.NEXT.S.C", {"batch": 9}, "_INBOX.p")
    for seq, pending, ack in ((1, 5, b""), (2, 8, b"+WPI"), (4, 2, b"-NAK")):
        reply = f"$JS.ACK.S.C.{1 if seq < 4 else 2}.{seq}.{seq}.0.{pending}"
        session.msg("orders", b"abc", reply)
        session.pub(reply, ack)
    (row,) = rows_of(session)
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


def test_an_ack_after_progress_has_its_latency_and_a_repeated_ack_has_none() -> None:
    session = ScriptedSession(JetStream())
    for seq, acks in ((1, (b"+WPI", b"+WPI", b"")), (2, (b"", b"", b"-NAK")), (3, (b"+WPI",))):
        reply = f"$JS.ACK.S.C.1.{seq}.{seq}.0.0"
        session.msg("orders", b"abc", reply)
        for ack in acks:
            session.pub(reply, ack)
    assert values(rows_of(session), "ack_median_ns", "ack_p99_ns") == [(MS, 3 * MS)]


def test_heartbeats_and_flow_control_of_a_push_consumer() -> None:
    session = ScriptedSession(JetStream())
    call(session, "CONSUMER.CREATE.S", {"name": "P", "config": {"deliver_subject": "push"}})
    session.msg("push", status=100, text="Idle Heartbeat")
    session.msg("push", reply="$JS.FC.S.P.abcd", status=100, text="FlowControl Request")
    session.pub("$JS.FC.S.P.abcd")
    session.pub("$JS.FC.hub.hash.S.P.abcd")
    session.pub("$JS.FC.S.OTHER.abcd")
    assert values(rows_of(session), "consumer", "heartbeats", "flow_controls") == [("P", 2, 2)]


def test_flow_control_through_a_gateway() -> None:
    session = ScriptedSession(JetStream(), kind="gateway")
    session.link("originator", "push", b"abc", "$JS.ACK.S.P.1.1.1.0.0@orders")
    session.link("responder", "_GR_.36IaNN.BXsBx9.$JS.FC.S.P.abcd")
    assert values(rows_of(session), "consumer", "flow_controls") == [("P", 1)]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(used, "_USED", 2)
    session = ScriptedSession(JetStream())
    for number in range(5):
        session.msg("orders", b"", f"$JS.ACK.S.C{number}.1.1.1.0.0")
    assert values(rows_of(session), "consumer", "deliveries", "anomalies") == [
        *((f"C{number}", 1, [Anomaly.FORGOTTEN.value]) for number in range(3)),
        ("C3", 1, None),
        ("C4", 1, None),
    ]


def test_a_push_consumer_that_was_forgotten_has_no_heartbeats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its subject may belong to another consumer by now; only the latest subject of a consumer counts."""
    monkeypatch.setattr(used, "_USED", 2)
    session = ScriptedSession(JetStream())
    for name, subject in (("P", "old"), ("P", "push"), ("Q", "q"), ("P", "push")):
        config = {"name": name, "config": {"deliver_subject": subject}}
        call(session, f"CONSUMER.INFO.S.{name}", config)
    for subject in ("old", "push", "q"):
        session.msg(subject, status=100, text="Idle Heartbeat")
    for number in range(2):
        session.msg("orders", b"", f"$JS.ACK.S.C{number}.1.1.1.0.0")
    session.msg("push", status=100, text="Idle Heartbeat")
    rows = sorted(rows_of(session), key=lambda row: getattr(row, "number"))
    assert values(rows, "consumer", "heartbeats") == [("P", 1), ("Q", 1), ("C0", 0), ("C1", 0)]


def test_a_row_has_the_first_subjects_of_a_long_filter() -> None:
    session = ScriptedSession(JetStream())
    named = [f"s.{number}" for number in range(1000)]
    call(session, "CONSUMER.INFO.S.C", {"name": "C", "config": {"filter_subjects": named}})
    assert values(rows_of(session), "filter") == [(named[:256],)]


def attempt(session: ScriptedSession, seq: int, number: int, *acks: bytes) -> None:
    """A delivery of consumer C; each ack comes a millisecond after what was before it."""
    reply = f"$JS.ACK.S.C.{number}.{seq}.{seq + number}.0.0"
    session.msg("orders", b"abc", reply)
    for ack in acks:
        session.pub(reply, ack)


def configured(**config: object) -> ScriptedSession:
    """A session that knows this configuration of consumer C."""
    session = ScriptedSession(JetStream())
    call(session, "CONSUMER.INFO.S.C", {"name": "C", "config": config})
    return session


@pytest.mark.parametrize(
    ("config", "late"),
    [
        ({"ack_wait": MS - 1}, 1),
        ({"ack_wait": MS}, None),
        ({"ack_wait": MS, "backoff": [MS // 2, MS]}, 1),
        ({"ack_wait": MS // 2, "backoff": [MS]}, None),
        ({"ack_wait": MS // 2, "ack_policy": "none"}, None),
        ({}, None),
    ],
)
def test_acks_are_late_after_the_wait_of_their_attempt(
    config: dict[str, object], late: int | None
) -> None:
    session = configured(**config)
    attempt(session, 1, 1, b"")
    assert values(rows_of(session), "late_acks") == [(late,)]


def test_progress_gives_a_worker_more_time() -> None:
    session = configured(ack_wait=MS + 1)
    attempt(session, 1, 1, b"+WPI", b"")
    assert values(rows_of(session), "late_acks") == [(None,)]


@pytest.mark.parametrize(
    ("acks", "policy", "given_up"),
    [
        ((), "explicit", ["1"]),
        ((b"-NAK",), "explicit", ["1"]),
        ((b"",), "explicit", None),
        ((b"+TERM",), "explicit", None),
        ((), "none", None),
        ((), "all", ["1"]),
    ],
)
def test_messages_are_given_up_after_their_last_attempt(
    acks: tuple[bytes, ...], policy: str, given_up: list[str] | None
) -> None:
    session = configured(ack_wait=2 * MS, max_deliver=2, ack_policy=policy)
    attempt(session, 1, 1)
    attempt(session, 1, 2, *acks)
    for seq in range(2, 7):
        attempt(session, seq, 1)
    assert values(rows_of(session), "given_up") == [(given_up,)]


def test_a_last_attempt_that_may_still_succeed_is_not_given_up() -> None:
    session = configured(ack_wait=9 * MS, max_deliver=1)
    attempt(session, 1, 1)
    attempt(session, 2, 1)
    assert values(rows_of(session), "given_up") == [(None,)]


def test_an_ack_of_all_settles_earlier_messages() -> None:
    session = configured(ack_wait=4 * MS, max_deliver=1, ack_policy="all")
    attempt(session, 1, 1)
    attempt(session, 2, 1, b"")
    for seq in range(3, 9):
        attempt(session, seq, 2)
    assert values(rows_of(session), "given_up") == [(None,)]
