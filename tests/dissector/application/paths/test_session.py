"""Frames of a session -> items: which frames are followed, and what stands for them."""

from __future__ import annotations

from dissect.nats.application.paths.items import (
    ASKS,
    CONTENTS,
    PLACES,
    SESSIONS,
    is_ack,
    key_of,
)
from dissect.nats.application.paths.session import PathSession, is_followed
from dissect.nats.schema.declaration import LayerItem

from tests.dissector.application.scripted_session import Nothing, ScriptedSession


def items_of(session: ScriptedSession) -> list[tuple[int, bytes]]:
    return [(item.stage, item.key) for item in session.close() if isinstance(item, LayerItem)]


def test_internal_traffic_is_not_followed() -> None:
    session = ScriptedSession(PathSession())
    for subject in ("$SYS.X", "$NRG.AE.x", "$JSC.CI.x", "$JS.API.INFO"):
        assert not is_followed(session.pub(subject))
    assert {stage for stage, _ in items_of(session)} == {SESSIONS}
    session = ScriptedSession(Nothing())
    assert is_followed(session.pub("$KV.b.k")) and is_followed(session.pub("orders"))
    assert is_followed(session.pub("_R_.x.y")), "the answer of a service to another account"


def test_publications_hops_and_deliveries() -> None:
    session = ScriptedSession(PathSession())
    session.pub("a", b"x")
    session.pub("a", b"x", "r")
    session.msg("a", b"x")
    session.msg("a", b"x", "$JS.ACK.S.C.1.7.7.1.0")
    stages = [stage for stage, _ in items_of(session)]
    assert stages == [CONTENTS, CONTENTS, ASKS, CONTENTS, PLACES, SESSIONS]
    assert items_of(session)[4][1] == key_of("S", 7)


def test_acks_say_where_a_publication_is_stored() -> None:
    session = ScriptedSession(PathSession())
    bodies = (b'{"seq":', b'{"seq": 7}', b'{"seq": 7, "stream": "S", "duplicate": true}')
    for body in (*bodies, b'{"seq": 7, "stream": "S"}'):
        session.msg("r", body)
    acks = [item for item in session.close() if isinstance(item, LayerItem) and item.stage == ASKS]
    assert [(is_ack(item), item.key, item.body) for item in acks] == [
        (True, key_of("s", "r"), ("S", 7))
    ]
