"""Stored messages in the answers of gets."""

from __future__ import annotations

import base64

from dissect.nats.application.jetstream.api import Call
from dissect.nats.application.jetstream.stores.stored_message import asked_subject, stored_message
from dissect.nats.application.jetstream.subjects import api_subject

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
    made.answer(session.stored("_INBOX.1", facts), 0)
    found = stored_message(made)
    assert found == ("a.b", 3, facts, b"a secret")


def test_of_the_older_call() -> None:
    session, made = call("$JS.API.STREAM.MSG.GET.S", {"last_by_subj": "a"})
    assert asked_subject(made) == "a"
    block = base64.b64encode(b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n").decode()
    message = {"subject": "a", "seq": 3, "hdrs": block, "data": "YWJj"}
    made.answer(session.msg("_INBOX.1", {"message": message}), 0)
    assert stored_message(made) == ("a", 3, {"A": "1"}, b"abc")


def test_of_an_error_and_of_nonsense() -> None:
    session, made = call("$JS.API.DIRECT.GET.S.a")
    made.answer(session.msg("_INBOX.1", status=404), 0)
    assert stored_message(made) is None
    for body in ({}, {"message": 7}, {"message": {}}):
        session, made = call("$JS.API.STREAM.MSG.GET.S")
        made.answer(session.msg("_INBOX.1", body), 0)
        assert stored_message(made) is None
    wrong = {"subject": 1, "seq": "x", "hdrs": "TkFUUw==", "data": "a"}
    session, made = call("$JS.API.STREAM.MSG.GET.S")
    made.answer(session.msg("_INBOX.1", {"message": wrong}), 0)
    assert stored_message(made) == ("", None, {}, b"")
