"""What sessions say of servers, gaps and captures."""

from __future__ import annotations

import json

from dissect.nats.application.paths.facts import Facts, SessionFacts
from dissect.nats.schema.declaration import LayerFrame

from tests.dissector.application.paths.grouping import hop
from tests.dissector.application.scripted_session import Nothing, ScriptedSession


def greeting(op: str, sender: str, kind: str = "client", **fields: str) -> LayerFrame:
    frame = ScriptedSession(Nothing(), kind).frame(sender, op, "", b"", None, {})
    frame.json = json.dumps(fields)
    return frame


def gathered(*facts: SessionFacts) -> Facts:
    return Facts.gathered(each.item(name) for each, name in zip(facts, "abc"))


def test_servers_are_known_by_what_they_said_first() -> None:
    client, route = SessionFacts(), SessionFacts()
    client.meet(greeting("INFO", "responder", server_id="NA", server_name="a"))
    client.meet(greeting("INFO", "responder", server_id="NX", server_name="x"))
    client.meet(greeting("CONNECT", "originator", name="a client"))
    route.meet(greeting("INFO", "responder", "route", server_id="NB", server_name="b"))
    route.meet(greeting("CONNECT", "originator", "route", server_id="NA", name="a"))
    facts = gathered(client, route)
    sent = hop(1, "b", sender="originator")
    assert (facts.sender(sent), facts.receiver(sent)) == ("NA", "NB")
    came = hop(2, "a", sender="originator")
    assert (facts.sender(came), facts.receiver(came)) == (None, "NA")
    assert facts.names == {"NA": "a", "NB": "b", "NX": "x"}
    assert facts.entries(came, [sent]) == {"NA": [came], "NB": [sent]}


def test_greetings_that_say_nothing() -> None:
    facts = SessionFacts()
    for content in ("", "[]", "{", "{}", '{"server_id": 7}'):
        frame = greeting("INFO", "responder")
        frame.json = content
        facts.meet(frame)
    assert facts.ends == {}


def test_what_announces_another_server_says_nothing_of_its_sender() -> None:
    """In a capture that begins later, gossip may be the only INFO on a route."""
    facts = SessionFacts()
    gossip = {"server_id": "NX", "server_name": "x", "ip": "nats-route://1.2.3.4:6222/"}
    facts.meet(greeting("INFO", "responder", "route", **gossip))
    facts.meet(greeting("INFO", "originator", "gateway", server_id="GWx", gateway_cmd="1"))
    assert facts.ends == {}
    facts.meet(greeting("INFO", "responder", "route", nonce="n", **gossip))
    assert facts.ends == {"responder": "NX"}


def test_gaps_are_noted_by_the_frame_after_them() -> None:
    session = ScriptedSession(Nothing())
    facts = SessionFacts()
    for lost in (0, 0, 5, 0):
        frame = session.pub("a")
        frame.offset += lost
        facts.look(frame)
    found = gathered(facts)
    side = ("a", "originator")
    assert found.gaps == {side: [3, 4]} and found.is_torn(side)
    assert not found.is_torn(("a", "responder"))
    assert [found.gaps_before(side, number) for number in (2, 3, 4, 9)] == [0, 1, 2, 2]


def test_captures_of_all_sessions() -> None:
    session, facts = ScriptedSession(Nothing()), SessionFacts()
    for capture in "xxyx":
        frame = session.pub("a")
        frame.capture = capture
        facts.look(frame)
    assert gathered(facts, SessionFacts()).taps == {"x", "y"}
