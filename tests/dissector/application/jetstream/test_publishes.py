"""Publications to JetStream and their acks."""

from __future__ import annotations

from dissect.nats.application.jetstream.api import ApiRecord
from dissect.nats.application.jetstream.layer import JetStream
from dissect.nats.application.jetstream.publishes import PublishRecord, read_ack
from dissect.nats.application.jetstream.streams import StreamRecord
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import Record

from tests.dissector.application.scripted_session import MS, ScriptedSession, values


def publications(session: ScriptedSession) -> list[Record]:
    session.close()
    return session.of(PublishRecord)


def test_only_the_answer_shows_a_publication_without_headers() -> None:
    session = ScriptedSession(JetStream())
    session.pub("orders", b"1", "_INBOX.1")
    session.msg("_INBOX.1", {"stream": "S", "seq": 7, "domain": "hub"})
    session.pub("price", b"2", "_INBOX.2")
    session.msg("_INBOX.2", {"price": 7})
    session.pub("price", b"3", "_INBOX.3")
    session.msg("_INBOX.3", {"stream": "video", "seq": "x"})
    session.pub("plain", b"4")
    session.pub("asked", b"5", "_INBOX.5")
    assert values(publications(session), "number", "stream", "seq", "domain", "latency_ns") == [
        (1, "S", 7, "hub", MS)
    ]


def test_a_subject_that_looks_like_a_call_under_another_prefix() -> None:
    """Only the answer shows whether a message is a call; a PubAck shows that a stream has the subject."""
    session = ScriptedSession(JetStream())
    session.pub("video.STREAM.INFO.cam1", b"1", "_INBOX.1")
    session.msg("_INBOX.1", {"stream": "VIDEO", "seq": 7})
    session.pub("video.STREAM.INFO.cam1", b"22", "_INBOX.2", Nats_Msg_Id="a")
    session.pub("video.STREAM.INFO.cam1", b"{}", "_INBOX.3")
    session.msg("_INBOX.3", {"price": 7})
    session.pub("imported.STREAM.INFO.S", b"", "_INBOX.4")
    session.msg("_INBOX.4", {"type": "io.nats.jetstream.api.v1.stream_info_response"})
    assert values(publications(session), "number", "stream", "seq", "msg_id", "latency_ns") == [
        (1, "VIDEO", 7, None, MS),
        (3, None, None, "a", None),
    ]
    assert values(session.of(ApiRecord), "number", "api") == [(6, "STREAM.INFO")]
    streams = sorted(session.of(StreamRecord), key=lambda row: getattr(row, "number"))
    assert values(streams, "stream", "publishes") == [("VIDEO", 1), ("S", 0)]


def test_headers_show_it_whatever_the_answer() -> None:
    session = ScriptedSession(JetStream())
    session.pub("orders", b"1", "_INBOX.1", Nats_Msg_Id="a", Nats_Expected_Last_Sequence="4")
    session.pub("orders", b"2", "_INBOX.2", Nats_Expected_Stream="S")
    session.msg("_INBOX.2", status=503)
    session.pub("orders", b"3", "_INBOX.3", Nats_Expected_Last_Subject_Sequence="0")
    session.msg("_INBOX.3", b'{"stream": "S", "se')
    session.pub("orders", b"4", None, Nats_Batch_Id="b", Nats_Batch_Sequence="1")
    session.pub("orders", b"5", None, X_Other="b")
    names = (
        "number",
        "msg_id",
        "expected_stream",
        "expected_last_seq",
        "batch_seq",
        "code",
    )
    assert sorted(values(publications(session), *names)) == [
        (1, "a", None, 4, None, None),
        (2, None, "S", None, None, 503),
        (4, None, None, None, None, None),
        (6, None, None, None, 1, None),
    ]
    marks = {getattr(row, "number"): getattr(row, "anomalies") for row in session.of(PublishRecord)}
    assert marks[4] == [Anomaly.BAD_JSON.value] and marks[1] is None


def test_refusals_and_duplicates() -> None:
    session = ScriptedSession(JetStream())
    error = {"code": 400, "err_code": 10071, "description": "wrong last sequence: 3"}
    session.pub("orders", b"1", "_INBOX.1")
    session.msg("_INBOX.1", {"error": error, "stream": "S", "seq": 0})
    session.pub("orders", b"2", "_INBOX.2")
    session.msg("_INBOX.2", {"stream": "S", "seq": 3, "duplicate": True})
    assert values(publications(session), "seq", "duplicate", "code", "err_code", "error") == [
        (None, None, 400, 10071, "wrong last sequence: 3"),
        (3, True, None, None, None),
    ]


def test_values_that_are_no_numbers_are_absent() -> None:
    session = ScriptedSession(JetStream())
    session.pub("o", b"", None, Nats_Msg_Id="x", Nats_Expected_Last_Sequence="many")
    assert values(publications(session), "expected_last_seq", "batch_commit") == [(None, None)]


def test_answers_within_a_fast_batch_are_valid_json() -> None:
    session = ScriptedSession(JetStream())
    reply = "_INBOX.x.200.fail.1.0.$FI"
    session.pub("orders", b"1", reply, Nats_Msg_Id="a")
    session.msg(reply, {"type": "ack", "seq": 1, "msgs": 200})
    assert values(publications(session), "msg_id", "anomalies") == [("a", None)]


def test_what_a_stream_sends_on_between_servers_is_not_published_again() -> None:
    """A stream that republishes keeps the headers of a message, and adds where it has stored it."""
    session = ScriptedSession(JetStream(), "route")
    session.link("originator", "orders", b"1", "_INBOX.1", Nats_Msg_Id="a")
    session.link("responder", "copies", b"1", Nats_Msg_Id="a", Nats_Stream="S", Nats_Sequence="1")
    session.link(
        "originator", "b", b"1", "_INBOX.2", Nats_Msg_Id="a", Nats_Stream="S", Nats_Sequence="1"
    )
    session.link("responder", "_INBOX.2", {"stream": "T", "seq": 1})
    assert sorted(values(publications(session), "number", "stream")) == [(1, None), (3, "T")]


def test_an_ack_is_json_with_stream_and_sequence() -> None:
    assert read_ack(b'{"stream": "S", "seq": 7}') == {"stream": "S", "seq": 7}
    assert read_ack(b'{"stream": "S", "seq": 0, "error": {"code": 503}}') is not None
    for other in (b"", b'{"seq": 7}', b'{"stream": "", "seq": 7}', b'{"stream": "S", "seq": "7"}'):
        assert read_ack(other) is None
    assert read_ack(b'{"stream": "S", "seq": 7, "type": "io.nats.jetstream.api.v1.x"}') is None
    assert read_ack(b'{"stream": "S", "seq": 7') is None, "cut"
