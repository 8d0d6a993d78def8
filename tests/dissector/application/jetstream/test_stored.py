"""Stored messages in the answers of gets, and the open watches of buckets and object stores."""

from __future__ import annotations

import base64

from dissect.nats.application.jetstream.api import Call
from dissect.nats.application.jetstream.kv import KvRecord
from dissect.nats.application.jetstream.stored import Watches, asked_subject, stored_message
from dissect.nats.application.jetstream.subjects import api_subject
from dissect.nats.schema.anomalies import Anomaly

from tests.dissector.application.scripted_session import Nothing, ScriptedSession


def call(subject: str, body: dict[str, object] | None = None) -> tuple[ScriptedSession, Call]:
    session = ScriptedSession(Nothing())
    asked = api_subject(subject)
    assert asked
    return session, Call(session.pub(subject, body or b"", "_INBOX.1"), asked)


def test_of_a_direct_get() -> None:
    session, made = call("$JS.API.DIRECT.GET.S.a.b")
    assert stored_message(made) is None and asked_subject(made) == "a.b"
    facts = {"Nats-Subject": "a.b", "Nats-Sequence": "3", "X": "y"}
    made.answer(session.stored("_INBOX.1", facts), False, 0)
    found = stored_message(made)
    assert found == ("a.b", 3, facts, b"a secret")


def test_of_the_older_call() -> None:
    session, made = call("$JS.API.STREAM.MSG.GET.S", {"last_by_subj": "a"})
    assert asked_subject(made) == "a"
    block = base64.b64encode(b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n").decode()
    message = {"subject": "a", "seq": 3, "hdrs": block, "data": "YWJj"}
    made.answer(session.msg("_INBOX.1", {"message": message}), False, 0)
    assert stored_message(made) == ("a", 3, {"A": "1"}, b"abc")


def test_of_an_error_and_of_nonsense() -> None:
    session, made = call("$JS.API.DIRECT.GET.S.a")
    made.answer(session.msg("_INBOX.1", status=404), False, 0)
    assert stored_message(made) is None
    for body in ({}, {"message": 7}, {"message": {}}):
        session, made = call("$JS.API.STREAM.MSG.GET.S")
        made.answer(session.msg("_INBOX.1", body), False, 0)
        assert stored_message(made) is None
    wrong = {"subject": 1, "seq": "x", "hdrs": "TkFUUw==", "data": "a"}
    session, made = call("$JS.API.STREAM.MSG.GET.S")
    made.answer(session.msg("_INBOX.1", {"message": wrong}), False, 0)
    assert stored_message(made) == ("", None, {}, b"")


A, B, C = ((None, "KV_b", name) for name in "abc")


def row(number: int) -> KvRecord:
    return KvRecord(session="", number=number, ts_ns=0, kind="client", bucket="b", op="watch")


def test_a_watch_from_its_beginning_to_its_end() -> None:
    watches = Watches[KvRecord](2)
    assert watches.of_message(A) is None and watches.of_message(A) is None
    assert (watches.take_early(A), watches.take_early(A)) == (2, 0)
    one, other = row(1), row(2)
    assert [*watches.begin(A, one)] == []
    assert watches.of_message(A) is one and watches.take_early(A) == 0
    assert [*watches.begin(A, other)] == [one] and one.anomalies is None
    assert [*watches.end(A)] == [other] and [*watches.end(A)] == []
    assert [*watches.finish()] == []


def test_watches_and_early_messages_beyond_the_limit_are_forgotten() -> None:
    watches = Watches[KvRecord](2)
    for key in (A, B, C, A):
        watches.of_message(key)
    assert [watches.take_early(key) for key in (A, B, C)] == [2, 1, 0]
    rows = [row(number) for number in range(3)]
    ended = [[*watches.begin(key, each)] for key, each in zip((A, B, C), rows)]
    assert ended == [[], [], [rows[0]]] and rows[0].anomalies == [Anomaly.FORGOTTEN.value]
    assert [*watches.finish()] == rows[1:]
