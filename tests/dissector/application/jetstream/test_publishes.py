"""Publications to JetStream and their acks."""

from __future__ import annotations

from dissect.nats.application.jetstream.layer import JetStream
from dissect.nats.application.jetstream.publishes import PublishRecord
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import Record

from tests.dissector.application.layer_talk import MS, Talk, values


def publications(talk: Talk) -> list[Record]:
    talk.close()
    return talk.of(PublishRecord)


def test_only_the_answer_shows_a_publication_without_headers() -> None:
    talk = Talk(JetStream())
    talk.pub("orders", b"1", "_INBOX.1")
    talk.msg("_INBOX.1", {"stream": "S", "seq": 7, "domain": "hub"})
    talk.pub("price", b"2", "_INBOX.2")
    talk.msg("_INBOX.2", {"price": 7})
    talk.pub("price", b"3", "_INBOX.3")
    talk.msg("_INBOX.3", {"stream": "video", "seq": "x"})
    talk.pub("plain", b"4")
    talk.pub("asked", b"5", "_INBOX.5")
    assert values(publications(talk), "number", "stream", "seq", "domain", "latency_ns") == [
        (1, "S", 7, "hub", MS)
    ]


def test_headers_show_it_whatever_the_answer() -> None:
    talk = Talk(JetStream())
    talk.pub("orders", b"1", "_INBOX.1", Nats_Msg_Id="a", Nats_Expected_Last_Sequence="4")
    talk.pub("orders", b"2", "_INBOX.2", Nats_Expected_Stream="S")
    talk.msg("_INBOX.2", status=503)
    talk.pub("orders", b"3", "_INBOX.3", Nats_Expected_Last_Subject_Sequence="0")
    talk.msg("_INBOX.3", b'{"stream": "S", "se')
    talk.pub("orders", b"4", None, Nats_Batch_Id="b", Nats_Batch_Sequence="1")
    talk.pub("orders", b"5", None, X_Other="b")
    names = (
        "number",
        "msg_id",
        "expected_stream",
        "expected_last_seq",
        "batch_seq",
        "code",
    )
    assert sorted(values(publications(talk), *names)) == [
        (1, "a", None, 4, None, None),
        (2, None, "S", None, None, 503),
        (4, None, None, None, None, None),
        (6, None, None, None, 1, None),
    ]
    marks = {getattr(row, "number"): getattr(row, "anomalies") for row in talk.of(PublishRecord)}
    assert marks[4] == [Anomaly.BAD_JSON.value] and marks[1] is None


def test_refusals_and_duplicates() -> None:
    talk = Talk(JetStream())
    error = {"code": 400, "err_code": 10071, "description": "wrong last sequence: 3"}
    talk.pub("orders", b"1", "_INBOX.1")
    talk.msg("_INBOX.1", {"error": error, "stream": "S", "seq": 0})
    talk.pub("orders", b"2", "_INBOX.2")
    talk.msg("_INBOX.2", {"stream": "S", "seq": 3, "duplicate": True})
    assert values(publications(talk), "seq", "duplicate", "code", "err_code", "error") == [
        (None, None, 400, 10071, "wrong last sequence: 3"),
        (3, True, None, None, None),
    ]


def test_values_that_are_no_numbers_are_absent() -> None:
    talk = Talk(JetStream())
    talk.pub("o", b"", None, Nats_Msg_Id="x", Nats_Expected_Last_Sequence="many")
    assert values(publications(talk), "expected_last_seq", "batch_commit") == [(None, None)]
