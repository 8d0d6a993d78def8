"""Operations on object stores."""

from __future__ import annotations

import pickle
from base64 import urlsafe_b64encode
from hashlib import sha256

import pytest

from dissect.nats.application.jetstream import objects
from dissect.nats.application.jetstream.layer import JetStream
from dissect.nats.application.jetstream.objects import ObjectRecord
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import Record

from tests.dissector.application.scripted_session import MS, ScriptedSession, values

TYPE = "io.nats.jetstream.api.v1.x"


def meta(content: bytes, chunks: int, **more: object) -> dict[str, object]:
    digest = "SHA-256=" + urlsafe_b64encode(sha256(content).digest()).decode()
    metadata = {"name": "plan", "bucket": "b", "nuid": "N", "size": len(content), "digest": digest}
    return {**metadata, "chunks": chunks, **more}


def put(session: ScriptedSession, metadata: dict[str, object], *chunks: bytes) -> None:
    for chunk in chunks:
        session.pub("$O.b.C.N", chunk, "_INBOX.1")
        session.msg("_INBOX.1", {"stream": "OBJ_b", "seq": 1})
    session.pub("$O.b.M.cGxhbg==", metadata, "_INBOX.1", Nats_Rollup="sub")
    session.msg("_INBOX.1", {"stream": "OBJ_b", "seq": 1})


def operations(session: ScriptedSession) -> list[Record]:
    session.close()
    return session.of(ObjectRecord)


def test_a_put_and_its_digest() -> None:
    session = ScriptedSession(JetStream())
    put(session, meta(b"abcdef", 2), b"abc", b"def")
    names = ("op", "name", "nuid", "bytes", "chunks", "complete", "digest_ok", "last_ns")
    assert values(operations(session), *names) == [("put", "plan", "N", 6, 2, True, True, 5 * MS)]


@pytest.mark.parametrize(
    "metadata, complete, ok",
    [
        (meta(b"abcxyz", 2), True, False),
        (meta(b"abcdef", 3), False, None),
        (meta(b"abcdef", 2, digest=None), True, None),
        ({"nuid": "N"}, False, None),
    ],
)
def test_what_does_not_match(metadata: dict[str, object], complete: bool, ok: bool | None) -> None:
    session = ScriptedSession(JetStream())
    put(session, metadata, b"abc", b"def")
    assert values(operations(session), "complete", "digest_ok", "chunks") == [(complete, ok, 2)]


def test_empty_links_and_deleted() -> None:
    session = ScriptedSession(JetStream())
    put(session, meta(b"", 0))
    put(session, meta(b"", 0, options={"link": {"bucket": "c", "name": "x"}}))
    put(session, meta(b"", 0, deleted=True))
    names = ("op", "bytes", "complete", "digest_ok", "link")
    assert values(operations(session), *names) == [
        ("put", 0, True, True, None),
        ("link", None, None, None, "c/x"),
        ("delete", None, None, None, None),
    ]


def test_a_put_that_never_ends_or_is_refused() -> None:
    session = ScriptedSession(JetStream())
    session.pub("$O.b.C.OTHER", b"abc")
    error = {"code": 503, "err_code": 10077, "description": "maximum bytes exceeded"}
    session.pub("$O.b.M.cGxhbg==", b"no JSON", "_INBOX.1")
    session.msg("_INBOX.1", {"stream": "OBJ_b", "seq": 0, "error": error})
    assert values(operations(session), "nuid", "name", "complete", "error", "anomalies") == [
        (None, "plan", None, "maximum bytes exceeded", [Anomaly.BAD_JSON.value]),
        ("OTHER", None, False, None, None),
    ]


def test_a_new_meta_message_for_stored_contents_is_no_put() -> None:
    """A client that renames an object looks up its meta message, and publishes it under the new name."""
    session = ScriptedSession(JetStream())
    session.pub("$JS.API.DIRECT.GET.OBJ_b.$O.b.M.cGxhbg==", b"", "_INBOX.1")
    answer = session.frame("responder", "MSG", "_INBOX.1", meta(b"abcdef", 2), None, {})
    answer.headers = {"Nats-Sequence": ["9"]}
    session.say(answer)
    session.pub("$O.b.M.bmV3", meta(b"abcdef", 2, name="new"))
    put(session, meta(b"abc", 1, nuid="M"))
    put(session, meta(b"abcdef", 2), b"abc", b"def")
    names = ("op", "name", "nuid", "bytes", "chunks", "complete")
    assert values(operations(session), *names) == [
        ("info", "plan", "N", 6, 2, None),
        ("update", "new", "N", None, None, None),
        ("put", "plan", "M", 0, 0, False),  # its chunks were not captured
        ("put", "plan", "N", 6, 2, True),
    ]


def test_a_get_sums_the_chunks_that_came() -> None:
    session = ScriptedSession(JetStream())
    session.pub("$JS.API.DIRECT.GET.OBJ_b.$O.b.M.cGxhbg==", b"", "_INBOX.1")
    answer = session.frame("responder", "MSG", "_INBOX.1", meta(b"abcdef", 2), None, {})
    answer.headers = {"Nats-Sequence": ["9"]}
    session.say(answer)
    for seq, chunk in ((1, b"abc"), (1, b"abc"), (2, b"def")):
        session.msg("$O.b.C.N", chunk, f"$JS.ACK.OBJ_b.X.1.{seq}.{seq}.1.{2 - seq}")
    names = ("op", "name", "bytes", "chunks", "complete", "digest_ok")
    assert values(operations(session), *names) == [
        ("info", "plan", 6, 2, None, None),
        ("get", "plan", 6, 2, True, True),
    ]


def test_readers_at_the_same_time_get_rows_of_their_own() -> None:
    """Between servers, many clients may read an object at once. The consumer Z goes on for Y."""
    session = ScriptedSession(JetStream())
    session.pub("$O.b.M.cGxhbg==", meta(b"abcdef", 3))
    chunks = {7: b"ab", 8: b"cd", 9: b"ef"}
    places = (("X", 7), ("Y", 7), ("X", 8), ("Y", 8), ("X", 9), ("Z", 8), ("Z", 9))
    for consumer, seq in places:
        session.msg("$O.b.C.N", chunks[seq], f"$JS.ACK.OBJ_b.{consumer}.1.{seq}.1.1.{9 - seq}")
    names = ("op", "number", "chunks", "complete", "digest_ok")
    assert values(operations(session), *names)[1:] == [
        ("get", 2, 3, True, True),
        ("get", 3, 3, True, True),
    ]


def test_a_get_whose_meta_message_was_not_captured() -> None:
    session = ScriptedSession(JetStream())
    session.msg("$O.b.C.N", b"abc", "$JS.ACK.OBJ_b.X.1.1.1.1.0")
    assert values(operations(session), "op", "name", "complete", "digest_ok") == [
        ("get", None, None, None)
    ]


def test_lookups_and_watches() -> None:
    session = ScriptedSession(JetStream())
    session.pub("$JS.API.STREAM.MSG.GET.OBJ_b", {"last_by_subj": "$O.b.M.cGxhbg=="}, "_INBOX.1")
    error = {"code": 404, "err_code": 10037, "description": "no message found"}
    session.msg("_INBOX.1", {"type": TYPE, "error": error})
    session.pub(
        "$JS.API.CONSUMER.CREATE.OBJ_b", {"config": {"filter_subject": "$O.b.M.>"}}, "_INBOX.1"
    )
    session.msg("_INBOX.1", {"type": TYPE, "name": "W", "config": {}})
    session.msg("$O.b.M.cGxhbg==", b"{}", "$JS.ACK.OBJ_b.W.1.1.1.1.0")
    assert values(operations(session), "op", "name", "chunks", "error") == [
        ("info", "plan", None, "no message found"),
        ("watch", None, 1, None),
    ]


def test_accounts_between_servers_may_have_watches_of_the_same_name() -> None:
    session = ScriptedSession(JetStream(), "route")
    ask, deliver = "$JS.API.CONSUMER.CREATE.OBJ_b.W", "$JS.ACK.OBJ_b.W.1.1.1.1.0@"
    body = {"config": {"filter_subject": "$O.b.M.>"}}
    for account in "AB":
        session.link("originator", ask, body, f"_INBOX.{account}", account=account)
        answer = {"type": TYPE, "name": "W", "config": {}}
        session.link("responder", f"_INBOX.{account}", answer, account=account)
    session.link("responder", "_INBOX.w", b"{}", deliver + "$O.b.M.cGxhbg==", account="B")
    found = values(operations(session), "account", "op", "chunks")
    assert found == [("A", "watch", 0), ("B", "watch", 1)]


def test_a_chunk_that_is_cut_hides_the_digest() -> None:
    session = ScriptedSession(JetStream())
    cut = session.frame("originator", "PUB", "$O.b.C.N", b"abc", None, {})
    cut.captured_bytes = 2
    session.say(cut)
    put(session, meta(b"abc", 1))
    assert values(operations(session), "complete", "digest_ok") == [(True, None)]


def test_a_state_that_moves_forgets_digests_only() -> None:
    session = ScriptedSession(JetStream())
    session.pub("$O.b.C.N", b"abc")
    session.state = pickle.loads(pickle.dumps(session.state))
    put(session, meta(b"abc", 1))
    assert values(operations(session), "complete", "digest_ok") == [(True, None)]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_TRANSFERS", "_METAS", "_WATCHES"):
        monkeypatch.setattr(objects, limit, 2)
    session = ScriptedSession(JetStream())
    for number in range(4):
        session.pub(f"$O.b.C.{number}", b"abc")
        session.pub("$O.b.M.eA==", meta(b"x", 1, nuid=f"X{number}"))
        session.msg("$O.b.M.x", b"", f"$JS.ACK.OBJ_b.C{number}.1.1.1.1.0")
    given_up = [row for row in operations(session) if getattr(row, "anomalies")]
    assert values(given_up, "nuid", "anomalies") == [
        ("0", [Anomaly.FORGOTTEN.value]),
        ("1", [Anomaly.FORGOTTEN.value]),
    ]


def test_the_latest_watches_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_WATCHES", 2)
    session = ScriptedSession(JetStream())
    body = {"config": {"filter_subject": "$O.b.M.>"}}
    for name in ("W1", "W2", "W3", "W3"):
        session.pub(f"$JS.API.CONSUMER.CREATE.OBJ_b.{name}", body, "_INBOX.1")
        session.msg("_INBOX.1", {"type": TYPE, "name": name, "config": {}})
        session.msg("$O.b.M.cGxhbg==", b"{}", f"$JS.ACK.OBJ_b.{name}.1.1.1.1.0")
    assert values(operations(session), "op", "chunks", "anomalies") == [
        ("watch", 1, [Anomaly.FORGOTTEN.value]),
        ("watch", 1, None),
        ("watch", 1, None),
        ("watch", 1, None),
    ]
