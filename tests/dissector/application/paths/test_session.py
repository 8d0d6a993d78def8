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
from dissect.nats.schema.declaration import Item

from tests.dissector.application.layer_talk import Nothing, Talk


def said(talk: Talk) -> list[tuple[int, bytes]]:
    return [(item.stage, item.key) for item in talk.close() if isinstance(item, Item)]


def test_internal_traffic_is_not_followed() -> None:
    talk = Talk(PathSession())
    for subject in ("$SYS.X", "$NRG.AE.x", "$JSC.CI.x", "$JS.API.INFO"):
        assert not is_followed(talk.pub(subject))
    assert {stage for stage, _ in said(talk)} == {SESSIONS}
    talk = Talk(Nothing())
    assert is_followed(talk.pub("$KV.b.k")) and is_followed(talk.pub("orders"))
    assert is_followed(talk.pub("_R_.x.y")), "the answer of a service to another account"


def test_publications_hops_and_deliveries() -> None:
    talk = Talk(PathSession())
    talk.pub("a", b"x")
    talk.pub("a", b"x", "r")
    talk.msg("a", b"x")
    talk.msg("a", b"x", "$JS.ACK.S.C.1.7.7.1.0")
    stages = [stage for stage, _ in said(talk)]
    assert stages == [CONTENTS, CONTENTS, ASKS, CONTENTS, PLACES, SESSIONS]
    assert said(talk)[4][1] == key_of("S", 7)


def test_acks_say_where_a_publication_is_stored() -> None:
    talk = Talk(PathSession())
    bodies = (b'{"seq":', b'{"seq": 7}', b'{"seq": 7, "stream": "S", "duplicate": true}')
    for body in (*bodies, b'{"seq": 7, "stream": "S"}'):
        talk.msg("r", body)
    acks = [item for item in talk.close() if isinstance(item, Item) and item.stage == ASKS]
    assert [(is_ack(item), item.key, item.body) for item in acks] == [
        (True, key_of("s", "r"), ("S", 7))
    ]
