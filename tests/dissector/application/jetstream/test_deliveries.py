"""Deliveries and their acks."""

from __future__ import annotations

import pytest

from dissect.nats.application import recent
from dissect.nats.application.jetstream import deliveries
from dissect.nats.application.jetstream.deliveries import DeliveryRecord, ack_of
from dissect.nats.application.jetstream.layer import JetStream
from dissect.nats.options import Payload
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import Record

from tests.dissector.application.scripted_session import MS, ScriptedSession, values


def reply(seq: int, attempt: int = 1, consumer: str = "C") -> str:
    return f"$JS.ACK.S.{consumer}.{attempt}.{seq}.{seq}.1795226503305173000.5"


def delivered(session: ScriptedSession) -> list[Record]:
    session.close()
    return sorted(session.of(DeliveryRecord), key=lambda row: getattr(row, "number"))


@pytest.mark.parametrize(
    "payload, ack, delay, reason",
    [
        (b"", "ack", None, None),
        (b"+ACK", "ack", None, None),
        (b"+OK", "ack", None, None),
        (b"-NAK", "nak", None, None),
        (b'-NAK {"delay": 50}', "nak", 50, None),
        (b"-NAK 1m1.5s", "nak", 61_500_000_000, None),
        (b"-NAK soon", "nak", None, None),
        (b"-NAK {", "nak", None, None),
        (b"+TERM", "term", None, None),
        (b"+TERM no customer", "term", None, "no customer"),
        (b"+TERM no pg://bob:s3cret@b", "term", None, "no pg://bob:***@b"),
        (b"+TERM pg://bob:" + b"s3cret" * 99 + b"@b", "term", None, "pg://bob:***@b"),
        (b"+WPI", "progress", None, None),
    ],
)
def test_a_delivery_has_the_kind_of_its_ack_and_its_reason(
    payload: bytes, ack: str, delay: int | None, reason: str | None
) -> None:
    session = ScriptedSession(JetStream())
    session.msg("orders", b"abc", reply(7))
    session.pub(reply(7), payload)
    (row,) = delivered(session)
    names = (
        "subject",
        "payload_bytes",
        "ack",
        "ack_latency_ns",
        "nak_delay_ns",
        "term_reason",
    )
    assert values([row], *names) == [("orders", 3, ack, MS, delay, reason)]


def test_progress_repeated_acks_and_confirmation() -> None:
    session = ScriptedSession(JetStream())
    session.msg("orders", b"", reply(1))
    session.pub(reply(1), b"+WPI")
    session.pub(reply(1), b"", "_INBOX.ack")
    session.msg("_INBOX.ack")
    session.pub(reply(1), b"-NAK")
    (row,) = delivered(session)
    assert values([row], "ack", "acks", "ack_ns", "confirmed_ns") == [("ack", 3, 3 * MS, 4 * MS)]


def test_attempts_are_rows_of_their_own() -> None:
    session = ScriptedSession(JetStream())
    session.msg("orders", b"", reply(1, 1))
    session.pub(reply(1, 1), b"-NAK")
    session.msg("orders", b"", reply(1, 2))
    assert values(delivered(session), "delivered_count", "ack") == [(1, "nak"), (2, None)]


def test_an_ack_proves_a_delivery_that_was_not_captured() -> None:
    session = ScriptedSession(JetStream())
    session.pub(reply(3), b"+WPI")
    session.pub(reply(3), b"")
    (row,) = delivered(session)
    names = ("stream_seq", "subject", "ack", "acks", "ack_latency_ns", "anomalies")
    assert values([row], *names) == [
        (3, None, "ack", 2, None, [Anomaly.DELIVERY_NOT_SEEN.value]),
    ]


def test_an_ack_that_is_none() -> None:
    session = ScriptedSession(JetStream())
    session.msg("orders", b"", reply(1))
    session.pub(reply(1), b"+MAYBE")
    (row,) = delivered(session)
    assert values([row], "ack", "acks", "anomalies") == [(None, 1, [Anomaly.BAD_ACK.value])]
    assert ack_of(b"+ACKS") == "" and ack_of(b"-NAKED") == "nak"


def test_between_servers_the_subject_is_in_the_reply() -> None:
    session = ScriptedSession(JetStream(), "route")
    session.link("originator", "_INBOX.pull", b"abc", f"{reply(4)}@orders.new")
    session.link("responder", reply(4), b"")
    (row,) = delivered(session)
    assert values([row], "subject", "account", "ack") == [("orders.new", "A", "ack")]


def test_rows_come_when_they_are_done_and_late_acks_are_no_deliveries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deliveries, "_REPEATED", 1)
    session = ScriptedSession(JetStream())
    for seq in (1, 2, 3):
        session.msg("orders", b"", reply(seq))
        session.pub(reply(seq), b"")
    assert values(session.of(DeliveryRecord), "stream_seq") == [(1,), (2,)]
    session.pub(reply(1), b"")
    assert len(delivered(session)) == 3


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "_UNACKED", 2)
    session = ScriptedSession(JetStream())
    for seq in (1, 2, 3):
        session.msg("orders", b"", reply(seq))
    assert values(delivered(session), "stream_seq", "anomalies") == [
        (1, [Anomaly.FORGOTTEN.value]),
        (2, None),
        (3, None),
    ]


def test_payloads_that_are_shown_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "HELD_BYTES", 10)
    session = ScriptedSession(JetStream(), shown=Payload.TEXT)
    for seq in range(1, 5):
        session.msg("orders", b"1234", reply(seq))
    forgotten = [Anomaly.FORGOTTEN.value]
    names = ("number", "payload", "anomalies")
    assert values(session.of(DeliveryRecord), *names) == [
        (1, "1234", forgotten),
        (2, "1234", forgotten),
    ]
    session.pub(reply(3), b"+ACK")
    session.msg("orders", b"1234", reply(5))
    assert values(session.of(DeliveryRecord), *names)[2:] == [(3, "1234", None)], "its ack came"
    assert values(delivered(session), *names)[3:] == [(4, "1234", None), (6, "1234", None)]


def test_a_delivery_that_is_captured_twice_is_two_rows() -> None:
    session = ScriptedSession(JetStream())
    for _ in range(2):
        session.msg("orders", b"abc", reply(7))
        session.pub(reply(7), b"+ACK")
    assert values(delivered(session), "number", "ack") == [(1, "ack"), (3, "ack")]


def test_progress_of_deliveries_that_were_not_seen_waits_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deliveries, "_UNACKED", 3)
    session = ScriptedSession(JetStream())
    for seq in range(10):
        session.pub(reply(seq), b"+WPI", f"_INBOX.{seq}")
    rows = delivered(session)
    given_up = [Anomaly.DELIVERY_NOT_SEEN.value, Anomaly.FORGOTTEN.value]
    assert [getattr(row, "anomalies") for row in rows] == [given_up] * 7 + [given_up[:1]] * 3


def test_acks_through_a_gateway_which_marks_the_reply_of_a_recent_consumer() -> None:
    """As 2.15.1 does if the subject of the messages has one token; each gateway carries one direction."""
    mapped = f"_GR_.36IaNN.BXsBx9.{reply(7)}"
    there = ScriptedSession(JetStream(), kind="gateway")
    there.link("originator", "_GR_.KOMZkc.Fat2Wj._INBOX.p", b"abc", f"{mapped}@orders")
    there.link("originator", mapped, b"+ACK")
    assert values(delivered(there), "subject", "ack", "acks") == [("orders", "ack", 1)]
    back = ScriptedSession(JetStream(), kind="gateway")
    back.link("originator", mapped, b"+ACK")
    assert values(delivered(back), "stream_seq", "ack", "anomalies") == [
        (7, "ack", [Anomaly.DELIVERY_NOT_SEEN.value])
    ]
