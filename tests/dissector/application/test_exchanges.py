"""Questions and answers, paired by reply subject."""

from __future__ import annotations

import pytest

from dissect.nats.application import exchanges, recent
from dissect.nats.application.exchanges import Exchanges
from dissect.nats.application.jetstream.api import ApiRecord
from dissect.nats.application.jetstream.layer import JetStream
from dissect.nats.application.jetstream.publishes import Publication, PublishRecord
from dissect.nats.options import Payload
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.declaration import LayerFrame
from dissect.nats.schema.records import Record

from tests.dissector.application.scripted_session import MS, Nothing, ScriptedSession, values


def test_an_answer_comes_from_the_other_side_to_the_reply_subject() -> None:
    session, waiting = ScriptedSession(Nothing()), Exchanges[Publication]()
    asked = session.pub("orders", b"x", "_INBOX.1.a", Nats_Msg_Id="1")
    assert list(waiting.ask(asked, Publication(asked))) == []
    assert waiting.awaited == ["_INBOX.1.a"]
    assert waiting.answered(session.msg("_INBOX.1.b")) is None
    assert waiting.answered(session.pub("_INBOX.1.a")) is None, "its own side"
    found = waiting.answered(session.msg("_INBOX.1.a", {"stream": "S", "seq": 1}))
    assert found is not None and waiting.awaited == []
    assert waiting.answered(session.msg("_INBOX.1.a")) is None, "it had its answer"


def test_a_reply_subject_that_is_used_again_ends_the_question_before() -> None:
    session, waiting = ScriptedSession(Nothing()), Exchanges[Publication]()
    for number in (1, 2):
        asked = session.pub("orders", b"x", "_INBOX.1", Nats_Msg_Id=str(number))
        ended = list(waiting.ask(asked, Publication(asked)))
    assert values(ended, "msg_id", "anomalies") == [("1", None)]
    (left,) = waiting.rest()
    assert values(left.close(None), "msg_id") == [("2",)]
    assert waiting.rest() == []


def test_accounts_may_use_the_same_reply_subject() -> None:
    session = ScriptedSession(JetStream(), "route")
    frames = [
        session.frame("originator", "RMSG", "orders", b"1", "acks", {}),
        session.frame("originator", "RMSG", "orders", b"2", "acks", {}),
        session.frame("responder", "RMSG", "acks", {"stream": "S", "seq": 7}, None, {}),
        session.frame("responder", "RMSG", "acks", {"stream": "S", "seq": 8}, None, {}),
    ]
    for frame, account in zip(frames, "ABAB"):
        frame.account = account
        session.say(frame)
    session.close()
    found = values(session.of(PublishRecord), "number", "account", "seq")
    assert found == [(1, "A", 7), (2, "B", 8)]


class Asked:
    """A question that notes its answers."""

    held_bytes = 0

    def __init__(self) -> None:
        self.answers: list[tuple[bool, int | None]] = []

    def answer(self, frame: LayerFrame, nobody: bool, latency_ns: int | None) -> bool:
        self.answers.append((nobody, latency_ns))
        return True

    def close(self, anomaly: str | None) -> list[Record]:
        return []


def test_an_answer_has_a_latency_unless_nobody_listens_or_the_clock_was_set_back() -> None:
    session, waiting, asked = ScriptedSession(Nothing()), Exchanges[Asked](), Asked()
    waiting.ask(session.pub("orders", b"x", "_INBOX.1"), asked)
    waiting.answered(session.msg("_INBOX.1", b"yes"))
    waiting.answered(session.msg("_INBOX.1", status=503))
    late = session.msg("_INBOX.1", b"yes")
    late.ts_ns -= 3600 * 10**9
    waiting.answered(late)
    assert asked.answers == [(False, MS), (True, None), (False, None)]


def test_the_oldest_question_is_given_up_where_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchanges, "_WAITING", 3)
    session, waiting = ScriptedSession(Nothing()), Exchanges[Publication]()
    ended: list[object] = []
    for number in range(5):
        asked = session.pub("orders", b"x", f"_INBOX.{number}", Nats_Msg_Id=str(number))
        ended += waiting.ask(asked, Publication(asked))
    rows = [row for row in ended if isinstance(row, PublishRecord)]
    assert values(rows, "msg_id", "anomalies") == [
        ("0", [Anomaly.FORGOTTEN.value]),
        ("1", [Anomaly.FORGOTTEN.value]),
    ]


def test_the_oldest_question_is_given_up_where_payloads_would_take_too_much_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recent, "HELD_BYTES", 10)
    session, waiting = ScriptedSession(Nothing(), shown=Payload.TEXT), Exchanges[Publication]()
    ended: list[Record] = []
    for number in range(1, 5):
        asked = session.pub("orders", b"1234", f"_INBOX.{number}", Nats_Msg_Id=str(number))
        ended += list(waiting.ask(asked, Publication(asked)))
    forgotten = [Anomaly.FORGOTTEN.value]
    assert values(ended, "msg_id", "anomalies") == [("1", forgotten), ("2", forgotten)]
    assert waiting.answered(session.msg("_INBOX.3", {"stream": "S", "seq": 1})) is not None
    asked = session.pub("orders", b"1234", "_INBOX.5", Nats_Msg_Id="5")
    assert list(waiting.ask(asked, Publication(asked))) == [], "an answer frees its question"


def test_the_oldest_call_is_given_up_where_bodies_would_take_too_much_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A body takes many times its size once it is read as JSON."""
    monkeypatch.setattr(recent, "HELD_BYTES", 1000)
    session = ScriptedSession(JetStream())
    for number in range(5):
        session.pub(f"$JS.API.STREAM.CREATE.S{number}", {"a": "b" * 400}, f"_INBOX.{number}")
    forgotten = [Anomaly.FORGOTTEN.value]
    found = values(session.of(ApiRecord), "stream", "anomalies")
    assert found == [(f"S{number}", forgotten) for number in range(3)]


def test_messages_that_a_call_returns_count_as_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "HELD_BYTES", 1000)
    session = ScriptedSession(JetStream())
    for number in range(4):
        session.pub(f"$JS.API.DIRECT.GET.S{number}", {"batch": 9}, f"_INBOX.{number}")
        for _ in range(3):
            session.msg(f"_INBOX.{number}", b"x" * 450, Nats_Sequence="1")
    found = values(session.of(ApiRecord), "stream", "anomalies")
    assert found == [(f"S{number}", [Anomaly.FORGOTTEN.value]) for number in range(1)]
    session.msg("_INBOX.2", b"", status=204)
    session.pub("$JS.API.DIRECT.GET.S4", {"batch": 9}, "_INBOX.4")
    assert values(session.of(ApiRecord), "stream")[-1] == ("S2",), "an answer frees its call"
