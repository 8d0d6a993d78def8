"""The rows of a session in NATS Streaming (the log of stan.go: jetstream/test_tables)."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.application import recent
from dissect.nats.application.messages import is_message
from dissect.nats.application.streaming import session as streaming_session
from dissect.nats.application.streaming import waiting
from dissect.nats.application.streaming.records import StreamingRecord
from dissect.nats.application.streaming.session import STREAMING, Streaming
from dissect.nats.options import Payload
from dissect.nats.pipeline import records
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import Record
from natsync.protocol.streaming import (
    Ack,
    CloseRequest,
    ConnectRequest,
    ConnectResponse,
    MsgProto,
    Ping,
    PingResponse,
    PubAck,
    PubMsg,
    SubscriptionRequest,
    SubscriptionResponse,
    UnsubscribeRequest,
)

from tests.dissector.application.scripted_session import MS, ScriptedSession, values
from tests.support.paths import CAPTURES

NOW = 1_600_000_000 * 10**9
NAMES = {"sub_requests": "s.x", "unsub_requests": "u.x", "close_requests": "c.x"}
NAMES |= {"sub_close_requests": "k.x", "ping_requests": "g.x", "pub_prefix": "p.x"}
CONNECT = ConnectRequest("me", "_INBOX.hb", conn_id=b"conn").to_bytes()


def rows_of(session: ScriptedSession) -> list[Record]:
    session.close()
    return sorted(session.of(StreamingRecord), key=lambda row: getattr(row, "number"))


def connected(subject: str = "_STAN.discover.c1") -> ScriptedSession:
    session = ScriptedSession(Streaming())
    session.pub(subject, CONNECT, "_INBOX.1")
    session.msg("_INBOX.1", ConnectResponse(**NAMES).to_bytes())
    return session


@pytest.mark.parametrize("subject", ["_STAN.discover.c1", "acme.stan.c1"])
def test_a_connection_names_all_other_subjects(subject: str) -> None:
    session = connected(subject)
    session.pub("p.x.orders", PubMsg("me", "g1", "orders", data=b"abc").to_bytes(), "_STAN.acks.1")
    session.msg("_STAN.acks.1", PubAck("g1", "stan: no").to_bytes())
    session.pub("g.x", Ping(b"conn").to_bytes(), "_INBOX.p")
    session.msg("_INBOX.p", PingResponse("gone").to_bytes())
    session.msg("_INBOX.hb", b"", "_INBOX.h")
    session.pub("_INBOX.h")
    session.pub("c.x", CloseRequest("me").to_bytes(), "_INBOX.c")
    session.msg("_INBOX.c", b"")
    names = ("op", "cluster_id", "client_id", "evidence", "channel", "guid", "latency_ns", "error")
    assert values(rows_of(session), *names) == [
        ("connect", "c1", "me", "discovered", None, None, MS, None),
        ("publish", "c1", "me", "discovered", "orders", "g1", MS, "stan: no"),
        ("ack_published", "c1", "me", "discovered", "orders", "g1", MS, "stan: no"),
        ("ping", "c1", "me", "discovered", None, None, MS, "gone"),
        ("heartbeat", "c1", "me", "inbox", None, None, MS, None),
        ("close", "c1", "me", "discovered", None, None, MS, None),
    ]


def test_a_subscription_its_messages_and_acks() -> None:
    session = connected()
    request = SubscriptionRequest("me", "orders", "q", "_INBOX.s", 8, 30, "d", 4)
    session.pub("s.x", request.to_bytes(), "_INBOX.2")
    session.msg("_INBOX.2", SubscriptionResponse("_INBOX.a").to_bytes())
    message = MsgProto(7, "orders", "", b"abc", NOW, True, 2)
    session.msg("_INBOX.s", message.to_bytes())
    session.pub("_INBOX.a", Ack("orders", 7).to_bytes())
    session.pub("u.x", UnsubscribeRequest("me", "orders", "_INBOX.a").to_bytes(), "_INBOX.3")
    session.msg("_INBOX.3", SubscriptionResponse(error="stan: no").to_bytes())
    names = ("op", "sequence", "redelivered", "redelivery_count", "durable", "queue", "latency_ns")
    rows = rows_of(session)
    assert values(rows, *names)[1:] == [
        ("subscribe", None, None, None, "d", "q", MS),
        ("deliver", 7, True, 2, "d", "q", None),
        ("ack", 7, None, None, "d", "q", MS),
        ("unsubscribe", None, None, None, "d", "q", MS),
    ]
    assert values(rows[1:3], "start", "ack_wait_ns", "stored_ns", "payload_bytes") == [
        ("first", 30 * 10**9, None, None),
        (None, None, NOW, 3),
    ]


def test_two_subscriptions_of_a_channel_have_their_own_latencies() -> None:
    session = connected()
    for name in "ab":
        request = SubscriptionRequest("me", "orders", "", f"_INBOX.{name}", 8, 30, name, 4)
        session.pub("s.x", request.to_bytes(), "_INBOX.2")
        session.msg("_INBOX.2", SubscriptionResponse(f"_INBOX.ack{name}").to_bytes())
    message = MsgProto(7, "orders", "", b"abc", NOW).to_bytes()
    for name in "ab":
        session.msg(f"_INBOX.{name}", message)
    for name in "ba":
        session.pub(f"_INBOX.ack{name}", Ack("orders", 7).to_bytes())
    acks = [row for row in rows_of(session) if getattr(row, "op") == "ack"]
    assert values(acks, "durable", "latency_ns") == [("b", MS), ("a", 3 * MS)]


def test_default_subjects_prove_what_agrees_with_its_payload() -> None:
    session = ScriptedSession(Streaming())
    session.pub("_STAN.pub.c1.orders", PubMsg("me", "g1", "orders").to_bytes(), "_STAN.acks.1")
    session.pub("_STAN.pub.c1.orders", PubMsg("me", "g2", "other").to_bytes(), "_STAN.acks.1")
    session.pub("_STAN.pub.c1.orders", b"\xff", "_STAN.acks.1")
    session.msg("_STAN.acks.1", PubAck("g0").to_bytes())
    session.pub("_STAN.sub.c1", b"", "_INBOX.1")
    names = ("op", "guid", "evidence", "anomalies")
    assert values(rows_of(session), *names) == [
        ("publish", "g1", "subject", None),
        ("publish", None, "subject", [Anomaly.BAD_PROTOBUF.value]),
        ("ack_published", "g0", "subject", None),
    ]


def deliver(
    session: ScriptedSession,
    inbox: str,
    sequence: int,
    subject: str = "orders",
    data: bytes = b"",
) -> None:
    frame = session.frame("responder", "MSG", inbox, b"", None, {})
    frame.content = MsgProto(sequence, subject, timestamp=NOW, data=data).to_bytes()
    frame.ts_ns += NOW
    session.say(frame)


def test_messages_that_continue_each_other_are_deliveries() -> None:
    session = ScriptedSession(Streaming())
    deliver(session, "_INBOX.1", 5)
    assert not session.rows
    deliver(session, "_INBOX.1", 6)
    deliver(session, "_INBOX.1", 7)
    session.pub("_INBOX.acks", Ack("orders", 6).to_bytes())
    session.pub("_INBOX.acks", Ack("orders", 99).to_bytes())
    deliver(session, "_INBOX.2", 5)
    deliver(session, "_INBOX.2", 5)
    deliver(session, "_INBOX.3", 1)
    deliver(session, "_INBOX.3", 2, "bills")
    assert values(rows_of(session), "op", "sequence", "evidence") == [
        ("deliver", 5, "shape"),
        ("deliver", 6, "shape"),
        ("deliver", 7, "shape"),
        ("ack", 6, "shape"),
    ]


def test_a_request_that_looks_like_a_connection_is_none_without_its_answer() -> None:
    session = ScriptedSession(Streaming())
    for number, answer in enumerate((b"", ConnectResponse(error="no").to_bytes(), b"\xff")):
        session.pub("acme.login", CONNECT, f"_INBOX.{number}")
        session.msg(f"_INBOX.{number}", answer)
    session.pub("acme.login", CONNECT, "_INBOX.9")
    session.pub("acme.login", CONNECT, "_INBOX.9")
    assert values(rows_of(session), "op") == []


def test_acks_come_to_the_inbox_of_their_publication() -> None:
    session = connected()
    for number in range(4):  # as natsync asks for them; stan.go has one inbox under _STAN.acks
        message = PubMsg("me", f"g{number}", "orders")
        session.pub("p.x.orders", message.to_bytes(), f"_INBOX.me.{number}")
    session.msg("_INBOX.me.1", PubAck("g1").to_bytes())
    session.msg("_INBOX.me.0", PubAck("g0", "stan: no").to_bytes())
    session.msg("_INBOX.me.2", status=503)
    session.msg("_INBOX.me.1", PubAck("g1").to_bytes())
    names = ("op", "guid", "error", "latency_ns", "evidence", "channel")
    assert values(rows_of(session), *names)[1:] == [
        ("publish", "g0", "stan: no", 5 * MS, "discovered", "orders"),
        ("publish", "g1", None, 3 * MS, "discovered", "orders"),
        ("publish", "g2", "no responders", None, "discovered", "orders"),
        ("publish", "g3", None, None, "discovered", "orders"),
        ("ack_published", "g1", None, 3 * MS, "discovered", "orders"),
        ("ack_published", "g0", "stan: no", 5 * MS, "discovered", "orders"),
    ]


def test_nobody_and_silence() -> None:
    session = ScriptedSession(Streaming())
    session.pub("_STAN.discover.c1", CONNECT, "_INBOX.1")
    session.msg("_INBOX.1", status=503)
    session.pub("_STAN.close.c1", CloseRequest("me").to_bytes(), "_INBOX.2")
    session.pub("_STAN.unsub.c1", UnsubscribeRequest("me", "a", "_INBOX.a").to_bytes())
    assert values(rows_of(session), "op", "error", "latency_ns") == [
        ("connect", "no responders", None),
        ("close", None, None),
        ("unsubscribe", None, None),
    ]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_SUBSCRIPTIONS", "_CLIENTS"):
        monkeypatch.setattr(streaming_session, limit, 2)
    monkeypatch.setattr(waiting, "_PUBLICATIONS", 2)
    monkeypatch.setattr(waiting, "_DELIVERIES", 2)
    monkeypatch.setattr(waiting, "_INBOXES", 2)
    session, sizes = connected(), []
    for number in range(10, 30):
        message = PubMsg("me", f"g{number}", "a")
        session.pub("p.x.a", message.to_bytes(), "_STAN.acks.1")
        session.pub(
            "s.x", SubscriptionRequest("me", "a", "", f"_INBOX.s{number}").to_bytes(), "_I.1"
        )
        session.msg("_I.1", SubscriptionResponse(f"_INBOX.a{number}").to_bytes())
        deliver(session, f"_INBOX.s{number}", number)
        deliver(session, f"_INBOX.x{number}", 1)
        session.pub(
            "_STAN.discover.c1", ConnectRequest("x", f"_INBOX.h{number}").to_bytes(), "_I.2"
        )
        sizes.append(len(pickle.dumps(session.state)))
    forgotten = [row for row in rows_of(session) if getattr(row, "anomalies") == ["forgotten"]]
    assert values(forgotten, "guid") == [(f"g{number}",) for number in range(10, 28)]
    assert max(sizes[3:]) - min(sizes[3:]) < 20 < min(sizes[1:3]) - sizes[0]


_BYTES = st.sampled_from(
    [
        b"",
        CONNECT,
        ConnectResponse(**NAMES).to_bytes(),
        PubMsg("me", "g", "orders").to_bytes(),
        SubscriptionRequest("me", "orders", "", "_INBOX.1").to_bytes(),
        SubscriptionResponse("_INBOX.2").to_bytes(),
        MsgProto(1, "orders", timestamp=NOW).to_bytes(),
        Ack("orders", 1).to_bytes(),
        b"\x08",
        b"\x0a\xff",
    ]
) | st.binary(max_size=8)
_SUBJECTS = st.sampled_from(
    "_STAN.discover.c _STAN.pub.c.orders _STAN.sub.c _STAN.unsub.c _STAN.close.c _STAN.acks.x p.x.orders"
    " s.x _INBOX.1 _INBOX.2 _INBOX.hb other".split()
)


@given(st.lists(st.tuples(st.booleans(), _SUBJECTS, _BYTES, st.none() | _SUBJECTS), max_size=30))
def test_any_conversation_gives_rows(messages: list[tuple[bool, str, bytes, str | None]]) -> None:
    session = ScriptedSession(Streaming())
    for from_client, subject, body, reply in messages:
        frame = (session.pub if from_client else session.msg)(subject, body, reply)
        assert is_message(frame)
    session.close()


def test_payloads_that_are_shown_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "HELD_BYTES", 10)
    session = connected()
    session.shown = Payload.TEXT
    for number in range(1, 5):
        body = PubMsg("me", f"g{number}", "orders", data=b"1234").to_bytes()
        session.pub("p.x.orders", body, f"_STAN.acks.{number}")
        if number == 2:
            session.msg("_STAN.acks.2", PubAck("g2").to_bytes())
    rows = [row for row in rows_of(session) if getattr(row, "op") == "publish"]
    assert values(rows, "guid", "payload", "anomalies") == [
        ("g1", "1234", [Anomaly.FORGOTTEN.value]),
        ("g2", "1234", None),
        ("g3", "1234", None),
        ("g4", "1234", None),
    ]


def test_messages_that_may_be_deliveries_take_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recent, "HELD_BYTES", 10)
    session = ScriptedSession(Streaming(), shown=Payload.TEXT)
    for sequence in (1, 2):
        for number in range(4):
            deliver(session, f"_INBOX.{number}", sequence, data=b"1234")
    assert not session.rows, "the first message of each inbox was forgotten before its second one"


def test_the_latest_clients_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's session has all its clients, one after the other; one of them is connected all the time."""
    monkeypatch.setattr(streaming_session, "_CLIENTS", 3)
    session = ScriptedSession(Streaming())
    for number in range(5):
        request = ConnectRequest(f"client{number}", f"_INBOX.hb{number}", conn_id=b"%d" % number)
        session.pub("_STAN.discover.c1", request.to_bytes(), f"_INBOX.{number}")
        for inbox in {0, number}:
            session.msg(f"_INBOX.hb{inbox}", b"", f"_INBOX.h{number}.{inbox}")
            session.pub("_STAN.discover.c1.pings", Ping(b"%d" % inbox).to_bytes())
    rows = [row for row in rows_of(session) if getattr(row, "op") in ("heartbeat", "ping")]
    clients = [row for (row,) in values(rows, "client_id")]
    assert clients == [
        f"client{one}" for number in range(5) for one in sorted({0, number}) for _ in range(2)
    ]


def test_a_subscription_that_is_used_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming_session, "_SUBSCRIPTIONS", 2)
    session = connected()
    for number in range(5):
        request = SubscriptionRequest("me", "orders", "", f"_INBOX.s{number}", durable_name="d")
        session.pub("s.x", request.to_bytes(), f"_INBOX.r{number}")
        session.msg(f"_INBOX.r{number}", SubscriptionResponse(f"_INBOX.a{number}").to_bytes())
        deliver(session, "_INBOX.s0", number + 1)
        session.pub("_INBOX.a0", Ack("orders", number + 1).to_bytes())
    rows = [row for row in rows_of(session) if getattr(row, "op") in ("deliver", "ack")]
    assert values(rows, "durable", "evidence") == [("d", "inbox")] * 10


def test_no_other_sample_has_any() -> None:
    found = list(records([str(CAPTURES)], ["streaming"]))
    assert found and found == sorted(found, key=STREAMING.position)
    whole = records([str(CAPTURES / "streaming-2.15.1.pcap")], ["streaming"])
    assert len(found) == len(list(whole))
    for row in found:
        assert all(isinstance(column.cell(row), str) for column in STREAMING.text)
