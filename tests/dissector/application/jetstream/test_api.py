"""Calls of the JetStream API and advisories."""

from __future__ import annotations

import json

import pytest

from dissect.nats.application.jetstream.api import ApiRecord
from dissect.nats.application.jetstream.layer import JetStream
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import Record

from tests.dissector.application.scripted_session import MS, ScriptedSession, values

TYPE = "io.nats.jetstream.api.v1."


def calls(session: ScriptedSession) -> list[Record]:
    session.close()
    return session.of(ApiRecord)


def test_a_call_and_its_answer() -> None:
    session = ScriptedSession(JetStream())
    session.pub("$JS.hub.API.STREAM.CREATE.S", {"name": "S", "password": "x"}, "_INBOX.a.1")
    session.msg("_INBOX.a.1", {"type": f"{TYPE}stream_create_response", "config": {}})
    (row,) = calls(session)
    assert isinstance(row, ApiRecord)
    assert (row.api, row.domain, row.stream, row.latency_ns) == (
        "STREAM.CREATE",
        "hub",
        "S",
        MS,
    )
    assert row.reply_number == 2 and row.response_type == f"{TYPE}stream_create_response"
    assert json.loads(row.request or "") == {"name": "S", "password": "***"}


def test_errors_silence_and_nobody() -> None:
    session = ScriptedSession(JetStream())
    error = {"code": 404, "err_code": 10059, "description": "stream not found"}
    session.pub("$JS.API.STREAM.INFO.S", b"", "_INBOX.1")
    session.msg("_INBOX.1", {"type": f"{TYPE}stream_info_response", "error": error})
    session.pub("$JS.API.STREAM.INFO.T", b"", "_INBOX.2")
    session.pub("$JS.API.STREAM.INFO.U", b"", "_INBOX.3")
    session.msg("_INBOX.3", status=503)
    assert sorted(values(calls(session), "stream", "code", "err_code", "error", "responses")) == [
        ("S", 404, 10059, "stream not found", 1),
        ("T", None, None, None, 0),
        ("U", 503, None, "no responders", 1),
    ]


def test_a_foreign_prefix_is_proven_by_the_answer() -> None:
    session = ScriptedSession(JetStream())
    for number, answer in enumerate((f"{TYPE}stream_info_response", "something.else")):
        session.pub("acme.js.STREAM.INFO.S", b"", f"_INBOX.{number}")
        session.msg(f"_INBOX.{number}", {"type": answer})
    session.pub("video.CONSUMER.INFO.S.C", b"", "_INBOX.3")
    assert values(calls(session), "subject", "number") == [("acme.js.STREAM.INFO.S", 1)]


def test_a_direct_get_has_the_stream_of_its_answer() -> None:
    session = ScriptedSession(JetStream())
    session.pub("$JS.API.DIRECT.GET.S.a.b", b"", "_INBOX.1")
    facts = {"Nats_Stream": "S", "Nats_Subject": "a.b", "Nats_Sequence": "7"}
    session.stored("_INBOX.1", facts)
    session.pub("$JS.API.DIRECT.GET.S", {"batch": 2}, "_INBOX.2")
    for _ in range(2):
        session.stored("_INBOX.2", facts)
    session.msg("_INBOX.2", status=204, text="EOB")
    rows = calls(session)
    assert values(rows, "responses", "code") == [(1, None), (3, None)]
    response = json.loads(getattr(rows[0], "response"))
    assert response == {"stream": "S", "subject": "a.b", "seq": 7, "payload_bytes": 8}


def test_bodies_that_cannot_be_read() -> None:
    session = ScriptedSession(JetStream())
    session.pub("$JS.API.STREAM.CREATE.S", b'{"name": "S', "_INBOX.1")
    frame = session.frame("responder", "MSG", "_INBOX.1", b'{"type": "', None, {})
    frame.captured_bytes = 9
    session.say(frame)
    (row,) = calls(session)
    assert getattr(row, "anomalies") == [
        Anomaly.BAD_JSON.value,
        Anomaly.TRUNCATED.value,
    ]


def test_between_servers_a_call_goes_either_way() -> None:
    session = ScriptedSession(JetStream(), "route")
    session.link("responder", "$JS.API.INFO", b"", "_R_.x.y")
    session.link("originator", "_R_.x.y", {"type": f"{TYPE}account_info_response"})
    (row,) = calls(session)
    assert values([row], "api", "account", "kind", "latency_ns") == [("INFO", "A", "route", MS)]


@pytest.mark.parametrize(
    "info, account",
    [
        ('{"acc":"A","rtt":1,"server":"n1"}', "A"),
        ('{"acc":"A","svc":"B"}', "B"),
        ('{"acc":7}', "$SYS"),
        ("{", "$SYS"),
        (None, "$SYS"),
    ],
)
def test_between_servers_a_call_concerns_the_account_that_asks(
    info: str | None, account: str
) -> None:
    session = ScriptedSession(JetStream(), "route")
    headers = {"Nats_Request_Info": info} if info else {}
    for api in ("STREAM.INFO", "DIRECT.GET"):
        reply = f"_R_.{api}"
        frame = session.frame("originator", "RMSG", f"$JS.API.{api}.S", b"{}", reply, headers)
        frame.account = "$SYS"
        session.say(frame)
    assert values(calls(session), "api", "account") == [
        ("STREAM.INFO", account),
        ("DIRECT.GET", "$SYS"),
    ]


def test_the_reason_in_an_advisory_shows_no_password() -> None:
    session = ScriptedSession(JetStream())
    body = {"type": "io.nats.jetstream.advisory.v1.terminated", "reason": "no pg://bob:s3cret@b"}
    session.msg("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.C", body)
    (row,) = calls(session)
    assert values([row], "error") == [("no pg://bob:***@b",)]
    assert "s3cret" not in str(row)


def test_an_advisory_is_a_row_with_its_stream_and_consumer() -> None:
    session = ScriptedSession(JetStream())
    body = {
        "type": "io.nats.jetstream.advisory.v1.max_deliver",
        "stream": "S",
        "consumer": "C",
    }
    subject = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C"
    session.msg(subject, body)
    session.msg("$JS.EVENT.ADVISORY.STREAM.DELETED.S", b"no JSON")
    session.msg("$JS.EVENT.METRIC.CONSUMER.ACK.S.C", {"ack_time": 5})
    found = values(calls(session), "api", "stream", "consumer", "anomalies")
    assert found == [
        (
            "EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES",
            "S",
            "C",
            [Anomaly.JETSTREAM_TROUBLE.value],
        ),
        ("EVENT.ADVISORY.STREAM.DELETED", "S", None, [Anomaly.BAD_JSON.value]),
        ("EVENT.METRIC.CONSUMER.ACK", "S", "C", None),
    ]
