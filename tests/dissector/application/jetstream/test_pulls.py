"""Pull requests: what they got and how they ended."""

from __future__ import annotations

import pytest

from dissect.nats.application.jetstream import pulls
from dissect.nats.application.jetstream.layer import JetStream
from dissect.nats.application.jetstream.pulls import PullRecord
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import Record

from tests.dissector.application.scripted_session import MS, ScriptedSession, values

NEXT = "$JS.API.CONSUMER.MSG.NEXT.S.C"


def reply(seq: int, consumer: str = "C") -> str:
    return f"$JS.ACK.S.{consumer}.1.{seq}.{seq}.1.0"


def pulled(session: ScriptedSession) -> list[Record]:
    session.close()
    return sorted(session.of(PullRecord), key=lambda row: getattr(row, "number"))


def test_a_full_batch_ends_a_pull() -> None:
    session = ScriptedSession(JetStream())
    session.sub("_INBOX.p")
    session.pub(NEXT, {"batch": 2, "expires": 5, "group": "g", "no_wait": True}, "_INBOX.p")
    for seq in (1, 2):
        session.msg("orders", b"abc", reply(seq))
    (row,) = session.of(PullRecord)
    names = (
        "batch",
        "delivered",
        "delivered_bytes",
        "end",
        "end_ns",
        "expires_ns",
        "no_wait",
    )
    assert values([row], *names) == [(2, 2, 6, "filled", 4 * MS, 5, True)]


@pytest.mark.parametrize("body, batch", [(b"", 1), (b"7", 7), (b"0", 1), (b'{"batch": 3}', 3)])
def test_a_pull_has_the_batch_of_its_body(body: bytes, batch: int) -> None:
    session = ScriptedSession(JetStream())
    session.pub(NEXT, body, "_INBOX.p")
    assert values(pulled(session), "batch", "end", "anomalies") == [(batch, "open", None)]


def test_a_body_that_cannot_be_read() -> None:
    session = ScriptedSession(JetStream())
    session.pub(NEXT, b"seven", "_INBOX.p")
    assert values(pulled(session), "batch", "anomalies") == [(1, [Anomaly.BAD_JSON.value])]


@pytest.mark.parametrize(
    "code, text, ended",
    [
        (409, "Exceeded MaxWaiting", "latest"),
        (409, "Exceeded MaxRequestBatch of 5", "latest"),
        (408, "Requests Pending", "latest"),
        (400, "Bad Request - heartbeat value too large", "latest"),
        (408, "Request Timeout", "oldest"),
        (409, "Message Size Exceeds MaxBytes", "oldest"),
        (409, "Leadership Change", "oldest"),
    ],
)
def test_a_refusal_ends_the_pull_that_was_sent_last(code: int, text: str, ended: str) -> None:
    session = ScriptedSession(JetStream())
    session.sub("_INBOX.p")
    session.pub(NEXT, {"batch": 5}, "_INBOX.p")
    session.pub(NEXT, {"batch": 9}, "_INBOX.p")
    session.msg("_INBOX.p", status=code, text=text)
    session.msg("orders", b"", reply(1))
    ends = [(str(code), 0), ("open", 1)]
    ends = ends if ended == "oldest" else ends[::-1]
    assert values(pulled(session), "end", "delivered") == ends


def test_a_pull_ends_with_the_status_of_the_server() -> None:
    session = ScriptedSession(JetStream())
    session.sub("_INBOX.p")
    session.pub(NEXT, {"batch": 5}, "_INBOX.p")
    session.msg("_INBOX.p", status=100, text="Idle Heartbeat")
    session.msg("orders", b"", reply(1))
    session.msg(
        "_INBOX.p",
        status=408,
        text="Request Timeout",
        Nats_Pending_Messages="4",
        Nats_Pending_Bytes="0",
    )
    names = (
        "delivered",
        "heartbeats",
        "end",
        "end_text",
        "pending_messages",
        "pending_bytes",
    )
    assert values(pulled(session), *names) == [(1, 1, "408", "Request Timeout", 4, 0)]


def test_pulls_that_share_an_inbox_are_served_in_their_order() -> None:
    session = ScriptedSession(JetStream())
    session.sub("_INBOX.p.*")
    for number in (1, 2):
        session.pub(NEXT, {"batch": 2}, "_INBOX.p.x")
    for seq in (1, 2, 3):
        session.msg("orders", b"", reply(seq))
    assert values(pulled(session), "delivered", "end") == [(2, "filled"), (1, "open")]


def test_the_subscription_says_whose_message_it_is() -> None:
    session = ScriptedSession(JetStream())
    session.sub("_INBOX.a", "1")
    session.sub("_INBOX.b", "2")
    session.sub("push.here", "3")
    for inbox in ("_INBOX.a", "_INBOX.b"):
        session.pub(NEXT, {"batch": 2}, inbox)
    session.msg("orders", b"", reply(1), sid="2")
    session.msg("orders", b"", reply(2), sid="3")
    assert values(pulled(session), "delivered") == [(0,), (1,)]


def test_a_subscription_that_was_not_captured() -> None:
    session = ScriptedSession(JetStream())
    session.pub(NEXT, {"batch": 1}, "_INBOX.a")
    session.msg("orders", b"", reply(1), sid="9")
    session.msg("orders", b"", reply(2), sid="9")
    assert values(pulled(session), "delivered", "end") == [(1, "filled")]


def test_an_inbox_without_listeners_ends_its_pulls() -> None:
    session = ScriptedSession(JetStream())
    session.sub("_INBOX.a", "1")
    session.pub(NEXT, b"", "_INBOX.a")
    session.unsub("1", max_msgs=5)
    assert not session.of(PullRecord)
    session.unsub("1")
    assert values(session.of(PullRecord), "end", "end_ns") == [("unsubscribed", 4 * MS)]


def test_a_pull_with_max_bytes_waits_for_its_status() -> None:
    session = ScriptedSession(JetStream())
    for inbox in ("_INBOX.a", "_INBOX.b"):
        session.sub(inbox, inbox)
        session.pub(NEXT, {"batch": 1, "max_bytes": 100}, inbox)
        session.msg("orders", b"", reply(1), sid=inbox)
    session.msg("_INBOX.b", status=409, text="Batch Completed")
    assert values(pulled(session), "end", "end_text") == [
        ("filled", None),
        ("409", "Batch Completed"),
    ]


def test_an_ack_that_asks_for_the_next() -> None:
    session = ScriptedSession(JetStream())
    session.sub("_INBOX.n")
    session.msg("orders", b"", reply(1))
    session.pub(reply(1), b'+NXT {"batch": 2}', "_INBOX.n")
    session.msg("orders", b"", reply(2))
    assert values(pulled(session), "batch", "delivered", "stream", "consumer") == [(2, 1, "S", "C")]


def test_between_servers_the_subject_is_the_inbox() -> None:
    session = ScriptedSession(JetStream(), "route")
    session.link("originator", NEXT, b"", "_INBOX.p")
    session.link("responder", "_INBOX.p", b"", f"{reply(1)}@orders")
    assert values(pulled(session), "delivered", "end", "account") == [(1, "filled", "A")]


def test_accounts_between_servers_may_use_the_same_names() -> None:
    session = ScriptedSession(JetStream(), "route")
    for account in "AB":
        session.link("originator", NEXT, b"", "pulls", account=account)
    session.link("responder", "pulls", b"", f"{reply(1)}@orders", account="B")
    session.link("responder", "pulls", b"", status=404, account="A")
    found = values(pulled(session), "account", "delivered", "end")
    assert found == [("A", 0, "404"), ("B", 1, "filled")]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulls, "_OPEN", 2)
    monkeypatch.setattr(pulls, "_SIDS", 2)
    session = ScriptedSession(JetStream())
    for number in range(4):
        session.sub(f"_INBOX.{number}", str(number))
        session.pub(NEXT, b"", f"_INBOX.{number}")
    assert values(session.of(PullRecord), "number", "anomalies") == [
        (2, [Anomaly.FORGOTTEN.value]),
        (4, [Anomaly.FORGOTTEN.value]),
    ]
    assert len(pulled(session)) == 4


def test_only_a_pull_without_waiting_ends_because_there_are_no_messages() -> None:
    """Both servers answer the second pull at once and the first one when it expires."""
    session = ScriptedSession(JetStream())
    session.sub("_INBOX.p")
    session.pub(NEXT, {"batch": 5, "expires": 1_500 * MS}, "_INBOX.p")
    session.pub(NEXT, {"batch": 1, "no_wait": True}, "_INBOX.p")
    session.msg("_INBOX.p", status=404, text="No Messages")
    session.msg("_INBOX.p", status=408, text="Request Timeout", Nats_Pending_Messages="5")
    ends = [("408", 5 * MS, 5), ("404", 4 * MS, None)]
    assert values(pulled(session), "end", "end_ns", "pending_messages") == ends


def test_the_first_pull_to_expire_times_out_first() -> None:
    session = ScriptedSession(JetStream())
    session.sub("_INBOX.p")
    for expires in (300, 200, 100):
        session.pub(NEXT, {"batch": 5, "expires": expires * MS}, "_INBOX.p")
    for _ in range(2):
        session.msg("_INBOX.p", status=408, text="Request Timeout")
    assert values(pulled(session), "end", "end_ns") == [
        ("open", None),
        ("408", 6 * MS),
        ("408", 5 * MS),
    ]


def test_an_inbox_for_two_consumers() -> None:
    """It is known which pull a message fills, and statuses end the pulls in order."""
    session = ScriptedSession(JetStream())
    session.sub("_INBOX.p")
    for consumer in ("C", "D", "E"):
        session.pub(NEXT[:-1] + consumer, {"batch": 5}, "_INBOX.p")
    session.msg("orders", b"", reply(1, "D"))
    for _ in range(2):
        session.msg("_INBOX.p", status=409, text="Leadership Change")
    session.unsub()
    assert values(pulled(session), "consumer", "delivered", "end") == [
        ("C", 0, "409"),
        ("D", 1, "409"),
        ("E", 0, "unsubscribed"),
    ]


def test_a_wildcard_subscription_ends_the_pulls_on_its_inboxes() -> None:
    session = ScriptedSession(JetStream())
    session.sub("_INBOX.p.*")
    for inbox in ("_INBOX.p.1", "_INBOX.q.1", "_INBOX.p.2"):
        session.pub(NEXT, {"batch": 5}, inbox)
    session.unsub()
    assert values(pulled(session), "end", "end_ns") == [
        ("unsubscribed", 5 * MS),
        ("open", None),
        ("unsubscribed", 5 * MS),
    ]
