"""The JetStream layer: any frames in any order give rows, never an error, and the same rows however cut."""

from __future__ import annotations

import json
from dataclasses import fields

from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.application.jetstream.layer import JETSTREAM, JetStream
from dissect.nats.pipeline import released
from dissect.nats.schema.declaration import LayerFrame
from dissect.nats.tables import TABLES, frames_for

from tests.dissector.application.scripted_session import ScriptedSession, values
from tests.support.paths import CAPTURES

_SUBJECTS = st.sampled_from(
    [
        "$JS.API.STREAM.CREATE.S",
        "$JS.API.STREAM.LIST",
        "$JS.API.CONSUMER.CREATE.S.C",
        "$JS.API.CONSUMER.LIST.S",
        "$JS.API.CONSUMER.MSG.NEXT.S.C",
        "$JS.API.DIRECT.GET.S",
        "$JS.API.DIRECT.GET.KV_b.$KV.b.k",
        "$JS.API.STREAM.MSG.GET.OBJ_b",
        "$JS.ACK.S.C.1.2.3.4.5",
        "$JS.ACK.KV_b.C.1.2.3.4.5",
        "$JS.FC.S.C.x",
        "$JS.EVENT.ADVISORY.API",
        "$KV.b.k",
        "$O.b.M.YQ==",
        "$O.b.C.nuid",
        "_INBOX.1",
        "_INBOX.2",
        "orders",
    ]
)
_BODIES = st.sampled_from(
    [
        b"",
        b"{}",
        b"[]",
        b'{"stream": "S", "seq": 1}',
        b'{"stream": 1, "seq": "1", "error": 7}',
        b'{"config": {"durable_name": 7, "subjects": [1, "a"]}, "name": "C", "state": []}',
        b'{"streams": [{"config": {"name": "S"}}], "consumers": [7, {"name": "C"}]}',
        b'{"type": "io.nats.jetstream.api.v1.x", "error": {"code": "4", "err_code": null}}',
        b'{"name": "a", "nuid": "nuid", "chunks": 1, "size": "x", "digest": "SHA-256=!"}',
        b'{"message": {"seq": 1, "hdrs": "!!", "data": 7, "subject": "$KV.b.k"}}',
        b'-NAK {"delay": "x"}',
        b"+NXT 3",
        b"\xff\x00",
    ]
)
_HEADERS = st.dictionaries(
    st.sampled_from(["Nats_Msg_Id", "KV_Operation", "Nats_Sequence", "Nats_Pending_Bytes"]),
    st.sampled_from(["", "DEL", "7", "\udc80"]),
    max_size=2,
)
Message = tuple[str, str, bytes, str | None, dict[str, str], int | None]
_MESSAGE: st.SearchStrategy[Message] = st.tuples(
    st.sampled_from(["pub", "msg", "originator", "responder", "sub", "unsub"]),
    _SUBJECTS,
    _BODIES,
    st.none() | _SUBJECTS,
    _HEADERS,
    st.none() | st.sampled_from([100, 204, 404, 409, 503]),
)


@settings(max_examples=300)
@given(st.lists(_MESSAGE, max_size=40), st.sampled_from(["client", "route", "unknown"]))
def test_any_conversation_gives_rows(messages: list[Message], kind: str) -> None:
    session = ScriptedSession(JetStream(), kind)
    for way, subject, body, reply, headers, status in messages:
        assert isinstance(subject, str) and isinstance(body, bytes) and isinstance(headers, dict)
        if way == "sub":
            session.sub(subject)
        elif way == "unsub":
            session.unsub()
        elif way == "pub":
            session.say(session.frame("originator", "PUB", subject, body, reply, headers))
        else:
            sender, op = ("responder", "MSG") if way == "msg" else (str(way), "RMSG")
            frame = session.frame(sender, op, subject, body, reply, headers)
            frame.status, frame.sid = status, "1" if way == "msg" else None
            session.say(frame)
    for row in session.close():
        columns = fields(row)  # type: ignore[arg-type]  # a dataclass
        json.dumps(values([row], *(item.name for item in columns)))


def test_only_messages_and_subscriptions_are_wanted() -> None:
    session = ScriptedSession(JetStream())
    assert session.pub("orders").op in JETSTREAM.ops
    assert "PING" not in JETSTREAM.ops


def test_one_pass_makes_all_tables() -> None:
    """The tables share one layer, and its rows do not depend on which of them are asked for."""
    name = frames_for("api")
    rows = [row for each in released([str(CAPTURES)], [name]) for row in each.records]
    frames: dict[str, list[LayerFrame]] = {}
    for row in rows:
        if isinstance(row, LayerFrame):
            frames.setdefault(row.session, []).append(row)
    made = [row for session in frames.values() for row in JETSTREAM.rows(session)]
    tables = [table for table in TABLES.values() if table.layer is JETSTREAM]
    assert len(tables) >= 6
    for table in tables:
        assert any(isinstance(row, table.row) for row in made), table.name
