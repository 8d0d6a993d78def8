"""What a session shows of its streams."""

from __future__ import annotations

import pytest

from dissect.nats.application.jetstream import used
from dissect.nats.application.jetstream.consumers import ConsumerRecord
from dissect.nats.application.jetstream.layer import JetStream
from dissect.nats.application.jetstream.streams import StreamRecord
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import Record

from tests.dissector.application.scripted_session import MS, ScriptedSession, values

TYPE = "io.nats.jetstream.api.v1."
CONFIG = {"name": "S", "subjects": ["a", "b"], "retention": "limits", "num_replicas": 3}
STATE = {"messages": 5, "bytes": 50, "first_seq": 1, "last_seq": 5, "consumer_count": 2}


def rows_of(session: ScriptedSession) -> list[Record]:
    session.close()
    return session.of(StreamRecord)


def call(session: ScriptedSession, api: str, answer: dict[str, object]) -> None:
    session.pub(f"$JS.API.{api}", b"", "_INBOX.1")
    session.msg("_INBOX.1", {"type": f"{TYPE}x", **answer})


def test_configuration_and_state_are_the_last_ones() -> None:
    session = ScriptedSession(JetStream())
    call(session, "STREAM.CREATE.S", {"config": {**CONFIG, "subjects": ["x"]}, "state": {}})
    call(
        session,
        "STREAM.INFO.S",
        {"config": CONFIG, "state": STATE, "cluster": {"leader": "n1"}},
    )
    (row,) = rows_of(session)
    names: tuple[str, ...] = (
        "subjects",
        "retention",
        "replicas",
        "messages",
        "last_seq",
        "leader",
        "created",
    )
    assert values([row], *names) == [(["a", "b"], "limits", 3, 5, 5, "n1", 1)]
    assert values([row], "number", "ts_ns", "last_ns") == [(1, MS, 4 * MS)]


def test_a_stream_counts_publishes_acks_and_redeliveries() -> None:
    session = ScriptedSession(JetStream())
    error = {"code": 400, "err_code": 10071, "description": "wrong last sequence"}
    for ack in ({"seq": 1}, {"seq": 1, "duplicate": True}, {"seq": 0, "error": error}):
        session.pub("orders", b"abc", "_INBOX.1")
        session.msg("_INBOX.1", {"stream": "S", **ack})
    for attempt, ack_text in ((1, b"-NAK"), (2, b"+TERM"), (3, b"")):
        reply = f"$JS.ACK.S.C.{attempt}.4.{attempt}.1.{attempt}"
        session.msg("orders", b"abc", reply)
        session.pub(reply, ack_text)
    call(session, "STREAM.PURGE.S", {"success": True, "purged": 9})
    call(session, "STREAM.DELETE.S", {"success": True})
    (row,) = rows_of(session)
    names: tuple[str, ...] = (
        "publishes",
        "publish_bytes",
        "publish_errors",
        "duplicates",
        "deliveries",
    )
    assert values([row], *names) == [(2, 6, 1, 1, 3)]
    names: tuple[str, ...] = (
        "redeliveries",
        "acks",
        "naks",
        "terms",
        "purged",
        "deleted",
        "last_seq",
    )
    assert values([row], *names, "max_pending") == [(2, 1, 1, 1, 9, 1, 4, 3)]


def test_a_list_names_streams_and_an_error_none() -> None:
    session = ScriptedSession(JetStream())
    listed = [{"config": {"name": "A"}}, {"config": []}, 7, {"config": {"name": "B"}}]
    call(session, "STREAM.LIST", {"streams": listed})
    call(session, "STREAM.INFO.NONE", {"error": {"code": 404}})
    assert values(rows_of(session), "stream") == [("A",), ("B",)]


def test_a_batch_counts_with_all_its_messages() -> None:
    """One ack confirms an atomic batch; the second one is committed without another message."""
    session = ScriptedSession(JetStream())
    for batch, commit in (("a", "1"), ("b", "eob")):
        ids = {"Nats_Batch_Id": batch}
        session.pub("orders", b"12345", "_INBOX.1", **ids, Nats_Batch_Sequence="1")
        session.msg("_INBOX.1")
        session.pub("orders", b"67", None, **ids, Nats_Batch_Sequence="2")
        ids |= {"Nats_Batch_Sequence": "3", "Nats_Batch_Commit": commit}
        session.pub("orders", b"8" if commit == "1" else b"", "_INBOX.3", **ids)
        count = 3 if commit == "1" else 2
        session.msg("_INBOX.3", {"stream": "S", "seq": 9, "batch": batch, "count": count})
    session.pub("orders", b"never committed", None, Nats_Batch_Id="c", Nats_Batch_Sequence="1")
    (row,) = rows_of(session)
    assert values([row], "publishes", "publish_bytes", "last_seq") == [(5, 15, 9)]


def test_a_fast_batch_counts_with_all_its_messages() -> None:
    session = ScriptedSession(JetStream())
    for place, (operation, content) in enumerate(((0, b"12345"), (1, b"67"), (2, b"8")), 1):
        session.pub("orders", content, f"_INBOX.x.200.fail.{place}.{operation}.$FI")
        if operation == 0:
            session.msg("_INBOX.x.200.fail.1.0.$FI", {"type": "ack", "seq": 1, "msgs": 200})
    session.msg("_INBOX.x.200.fail.3.2.$FI", {"stream": "S", "seq": 9, "batch": "x", "count": 3})
    (row,) = rows_of(session)
    assert values([row], "publishes", "publish_bytes", "last_seq") == [(3, 8, 9)]


def test_messages_that_a_server_stores_one_by_one_count_one_by_one() -> None:
    """A server that knows no batches stores the header."""
    session = ScriptedSession(JetStream())
    for place in (1, 2):
        headers = {"Nats_Batch_Id": "a", "Nats_Batch_Sequence": str(place)}
        session.pub("orders", b"12345", "_INBOX.1", **headers)
        session.msg("_INBOX.1", {"stream": "S", "seq": place})
    (row,) = rows_of(session)
    assert values([row], "publishes", "publish_bytes") == [(2, 10)]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(used, "_USED", 2)
    session = ScriptedSession(JetStream())
    for number in range(5):
        call(session, f"STREAM.INFO.S{number}", {"config": {"subjects": ["x"] * 1000}})
    rows = rows_of(session)
    assert len(getattr(rows[0], "subjects")) == 256
    assert values(rows, "stream", "anomalies") == [
        *((f"S{number}", [Anomaly.FORGOTTEN.value]) for number in range(3)),
        ("S3", None),
        ("S4", None),
    ]


def test_accounts_between_servers_have_streams_and_consumers_of_their_own() -> None:
    session = ScriptedSession(JetStream(), "route")
    for account, number in (("A", 1), ("B", 2)):
        reply, ack = f"_INBOX.{account}", {"stream": "S", "seq": number}
        frames = [
            session.frame("originator", "RMSG", "orders", b"abc", reply, {}),
            session.frame("responder", "RMSG", reply, ack, None, {}),
            session.frame("responder", "RMSG", "_INBOX.p", b"", "$JS.ACK.S.C.1.1.1.0.7", {}),
            session.frame("originator", "RMSG", "$JS.FC.S.C.abcd", b"", None, {}),
        ]
        for frame in frames:
            frame.account = account
            session.say(frame)
    names = ("account", "stream", "publishes", "last_seq", "deliveries")
    assert values(rows_of(session), *names) == [("A", "S", 1, 1, 1), ("B", "S", 1, 2, 1)]
    names = ("account", "consumer", "deliveries", "flow_controls")
    assert values(session.of(ConsumerRecord), *names) == [("A", "C", 1, 1), ("B", "C", 1, 1)]
