"""Key-value operations."""

from __future__ import annotations

import base64

import pytest

from dissect.nats.application.jetstream import kv
from dissect.nats.application.jetstream.kv import KvRecord
from dissect.nats.application.jetstream.layer import JetStream
from dissect.nats.options import Payload
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import Record

from tests.dissector.application.scripted_session import MS, ScriptedSession, values

TYPE = "io.nats.jetstream.api.v1.x"


def operations(session: ScriptedSession) -> list[Record]:
    session.close()
    return sorted(session.of(KvRecord), key=lambda row: getattr(row, "number"))


def test_writes_have_their_operation_and_revision() -> None:
    session = ScriptedSession(JetStream())
    last = "Nats-Expected-Last-Subject-Sequence"
    for headers in ({}, {last: "0"}, {last: "4"}, {"KV-Operation": "DEL"}):
        session.pub("$KV.b.a.b", b"abc", "_INBOX.1", **headers)
        session.msg("_INBOX.1", {"stream": "KV_b", "seq": 7})
    session.pub("$JS.hub.API.$KV.b.k", b"abc", None, Nats_TTL="5s")
    session.pub("$KV.b.k", b"", "_INBOX.2", KV_Operation="PURGE")
    names = ("bucket", "key", "op", "revision", "expected_revision", "value_bytes", "ttl")
    assert values(operations(session), *names) == [
        ("b", "a.b", "put", 7, None, 3, None),
        ("b", "a.b", "create", 7, 0, 3, None),
        ("b", "a.b", "update", 7, 4, 3, None),
        ("b", "a.b", "delete", 7, None, None, None),
        ("b", "k", "put", None, None, 3, "5s"),
        ("b", "k", "purge", None, None, None, None),
    ]


def test_a_write_that_is_refused() -> None:
    session = ScriptedSession(JetStream())
    error = {"code": 400, "err_code": 10071, "description": "wrong last sequence: 3"}
    session.pub("$KV.b.k", b"abc", "_INBOX.1")
    session.msg("_INBOX.1", {"stream": "KV_b", "seq": 0, "error": error})
    names = ("revision", "code", "err_code", "error", "latency_ns")
    assert values(operations(session), *names) == [(None, 400, 10071, "wrong last sequence: 3", MS)]


@pytest.mark.parametrize("subject", ["x$KV.b.k", "$KV.b", "$KV..k", "$KV.b.", "orders"])
def test_what_is_no_write(subject: str) -> None:
    session = ScriptedSession(JetStream())
    session.pub(subject, b"abc", "_INBOX.1", Nats_Msg_Id="x")
    assert not operations(session)


def test_a_direct_get_has_revision_and_marker_of_its_answer() -> None:
    session = ScriptedSession(JetStream())
    facts = {"Nats-Stream": "KV_b", "Nats-Subject": "$KV.b.k", "Nats-Sequence": "3"}
    for more in ({}, {"KV-Operation": "DEL"}, {"Nats-Marker-Reason": "MaxAge"}):
        session.pub("$JS.API.DIRECT.GET.KV_b.$KV.b.k", b"", "_INBOX.1")
        session.stored("_INBOX.1", {**facts, **more})
    session.pub("$JS.API.DIRECT.GET.KV_b", {"seq": 3}, "_INBOX.1")
    session.stored("_INBOX.1", facts)
    session.pub("$JS.API.DIRECT.GET.KV_b.$KV.b.other", b"", "_INBOX.1")
    session.msg("_INBOX.1", status=404, text="Message Not Found")
    names = ("key", "found", "removed", "revision", "expected_revision", "value_bytes", "code")
    assert values(operations(session), *names) == [
        ("k", True, None, 3, None, 8, None),
        ("k", False, "delete", 3, None, None, None),
        ("k", False, "purge", 3, None, None, None),
        ("k", True, None, 3, 3, 8, None),
        ("other", False, None, None, None, None, 404),
    ]


@pytest.mark.parametrize("code, found", [(404, False), (408, None), (503, None)])
def test_a_get_that_fails_does_not_say_that_the_key_has_no_value(
    code: int, found: bool | None
) -> None:
    session = ScriptedSession(JetStream())
    session.pub("$JS.API.DIRECT.GET.KV_b.$KV.b.k", b"", "_INBOX.1")
    session.msg("_INBOX.1", status=code)
    session.pub("$JS.API.STREAM.MSG.GET.KV_b", {"last_by_subj": "$KV.b.k"}, "_INBOX.1")
    session.msg("_INBOX.1", {"type": TYPE, "error": {"code": code, "err_code": 10008}})
    assert values(operations(session), "key", "found", "code") == [("k", found, code)] * 2


def test_gets_in_json() -> None:
    session = ScriptedSession(JetStream())
    block = base64.b64encode(b"NATS/1.0\r\nKV-Operation: PURGE\r\n\r\n").decode()
    message: dict[str, object] = {"subject": "$KV.b.k", "seq": 9}
    for more in ({"data": "YWJj"}, {"hdrs": block}, {"data": 7, "hdrs": "!"}):
        session.pub("$JS.API.STREAM.MSG.GET.KV_b", {"last_by_subj": "$KV.b.k"}, "_INBOX.1")
        session.msg("_INBOX.1", {"type": TYPE, "message": {**message, **more}})
    session.pub("$JS.API.STREAM.MSG.GET.KV_b", {"last_by_subj": "$KV.b.k"}, "_INBOX.1")
    names = ("key", "found", "removed", "revision", "value_bytes")
    assert values(operations(session), *names) == [
        ("k", True, None, 9, 3),
        ("k", False, "purge", 9, None),
        ("k", True, None, 9, 0),
        ("k", None, None, None, None),  # no answer
    ]


def test_a_get_tells_the_ttl_that_the_server_keeps() -> None:
    """A server raises a TTL to `subject_delete_marker_ttl` (nats-server: server/stream.go)."""
    session = ScriptedSession(JetStream())
    session.pub("$KV.b.k", b"abc", "_INBOX.1", Nats_TTL="1s")
    session.msg("_INBOX.1", {"stream": "KV_b", "seq": 3})
    session.pub("$JS.API.DIRECT.GET.KV_b.$KV.b.k", b"", "_INBOX.2")
    facts = {"Nats-Stream": "KV_b", "Nats-Subject": "$KV.b.k", "Nats-Sequence": "3"}
    session.stored("_INBOX.2", {**facts, "Nats-TTL": "60"})
    block = base64.b64encode(b"NATS/1.0\r\nNats-TTL: 60\r\n\r\n").decode()
    session.pub("$JS.API.STREAM.MSG.GET.KV_b", {"last_by_subj": "$KV.b.k"}, "_INBOX.3")
    message = {"subject": "$KV.b.k", "seq": 3, "hdrs": block, "data": "YWJj"}
    session.msg("_INBOX.3", {"type": TYPE, "message": message})
    assert values(operations(session), "op", "revision", "ttl") == [
        ("put", 3, "1s"),
        ("get", 3, "60"),
        ("get", 3, "60"),
    ]


def test_a_revision_that_is_no_integer_of_64_bits_is_left_out() -> None:
    session = ScriptedSession(JetStream())
    for seq in (10**300, True, "3"):
        session.pub("$JS.API.DIRECT.GET.KV_b", {"seq": seq}, "_INBOX.1")
        session.msg("_INBOX.1", status=404, text="Message Not Found")
    assert values(operations(session), "expected_revision") == [(None,)] * 3


def test_watches_and_status() -> None:
    session = ScriptedSession(JetStream())
    for name, config in (
        ("W", {}),
        ("H", {"deliver_policy": "all"}),
        ("K", {"headers_only": True, "filter_subjects": ["$KV.b.a", "$KV.b.b.>"]}),
    ):
        reply = f"$JS.ACK.KV_b.{name}.1.1.1.1.0"
        session.msg("$KV.b.a", b"", reply)  # before the answer that names the consumer
        body = {"config": {"filter_subject": "$KV.b.a", **config}}
        session.pub("$JS.API.CONSUMER.CREATE.KV_b", body, "_INBOX.1")
        session.msg("_INBOX.1", {"type": TYPE, "name": name, "config": {}})
        session.msg("$KV.b.a", b"", reply)
    session.pub("$JS.API.CONSUMER.DELETE.KV_b.W", b"", "_INBOX.1")
    session.msg("_INBOX.1", {"type": TYPE, "success": True})
    assert values(session.of(KvRecord), "op", "entries") == [("watch", 2)]
    session.pub("$JS.API.STREAM.INFO.KV_b", b"", "_INBOX.1")
    session.msg("_INBOX.1", {"type": TYPE, "config": {}})
    assert values(operations(session), "op", "key", "entries") == [
        ("watch", "a", 2),
        ("history", "a", 2),
        ("keys", "a b.>", 2),
        ("status", None, None),
    ]


def test_accounts_between_servers_may_have_watches_of_the_same_name() -> None:
    session = ScriptedSession(JetStream(), "route")
    ask, deliver = "$JS.API.CONSUMER.CREATE.KV_b.W", "$JS.ACK.KV_b.W.1.1.1.1.0@"
    body = {"config": {"filter_subject": "$KV.b.>"}}
    for account in "AB":
        session.link("originator", ask, body, f"_INBOX.{account}", account=account)
        answer = {"type": TYPE, "name": "W", "config": {}}
        session.link("responder", f"_INBOX.{account}", answer, account=account)
    session.link("responder", "_INBOX.w", b"{}", deliver + "$KV.b.a", account="B")
    found = values(operations(session), "account", "op", "entries")
    assert found == [("A", "watch", 0), ("B", "watch", 1)]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv, "_WATCHES", 2)
    session = ScriptedSession(JetStream())
    for number in range(5):
        session.msg("$KV.b.a", b"", f"$JS.ACK.KV_b.X{number}.1.1.1.1.0")
        session.pub(f"$JS.API.CONSUMER.CREATE.KV_b.C{number}", b"", "_INBOX.1")
        session.msg("_INBOX.1", {"type": TYPE})
    assert [row[0] for row in values(operations(session), "anomalies")] == [
        *3 * [[Anomaly.FORGOTTEN.value]],
        *2 * [None],
    ]


def test_values_when_they_are_asked_for() -> None:
    session = ScriptedSession(JetStream(), shown=Payload.TEXT)
    session.pub("$KV.b.k", b"abc", "_INBOX.1")
    session.pub("$KV.b.k", b"", "_INBOX.2", KV_Operation="DEL")
    session.pub("$JS.API.STREAM.MSG.GET.KV_b", {"last_by_subj": "$KV.b.k"}, "_INBOX.3")
    session.msg("_INBOX.3", {"type": TYPE, "message": {"subject": "$KV.b.k", "data": "YWJj"}})
    facts = {"Nats-Subject": "$KV.b.k", "Nats-Sequence": "3"}
    for more in ({}, {"KV-Operation": "DEL"}):
        session.pub("$JS.API.DIRECT.GET.KV_b.$KV.b.k", b"", "_INBOX.4")
        session.stored("_INBOX.4", {**facts, **more})
    assert values(operations(session), "op", "payload") == [
        ("put", "abc"),
        ("delete", None),
        ("get", "abc"),
        ("get", "a secret"),
        ("get", None),
    ]


def test_the_size_of_a_value_that_was_cut() -> None:
    session = ScriptedSession(JetStream(), shown=Payload.SHA256)
    session.pub("$JS.API.DIRECT.GET.KV_b.$KV.b.k", b"", "_INBOX.1")
    answer = session.stored("_INBOX.9", {"Nats-Subject": "$KV.b.k", "Nats-Sequence": "3"})
    answer.subject, answer.payload_bytes, answer.captured_bytes = "_INBOX.1", 800, 8
    session.say(answer)
    assert values(operations(session), "value_bytes", "payload_sha256") == [(800, None)]
