"""What frames say about the kind of a connection whose handshake was not seen."""

from __future__ import annotations

import pytest

from dissect.nats.framing.contexts import ALL
from dissect.nats.framing.kind_inference import Evidence, kind_of_news, sends_messages
from dissect.nats.framing.resync.chain import Chain
from natsync.protocol import Context, Kind, Role, ServerInfo

from tests.support.conversations import CONNECT, ORIGINATOR, RESPONDER, FramedConversation


def evidence_of(*lines: bytes) -> Evidence:
    evidence = Evidence()
    for line in lines:
        chain = Chain(0, ALL)
        assert chain.read(line) is not None
        evidence.add(chain)
    return evidence


@pytest.mark.parametrize(
    "lines, sender, expected",
    [
        ([b"PUB a 5\r\n"], Role.CLIENT, Context(Role.CLIENT, Kind.CLIENT)),
        ([b"HMSG a 1 12 15\r\n"], Role.SERVER, Context(Role.SERVER, Kind.CLIENT)),
        ([b"MSG a 1 5\r\n", b"PONG\r\n"], Role.SERVER, Context(Role.SERVER, Kind.CLIENT)),
        ([b"RMSG A a.b 5\r\n"], Role.CLIENT, Context(Role.CLIENT, Kind.ROUTE, False, True)),
        ([b"RMSG a.b r.c 5\r\n"], Role.CLIENT, Context(Role.CLIENT, Kind.ROUTE, True, True)),
        ([b"HMSG A a.b 12 15\r\n"], Role.CLIENT, Context(Role.CLIENT, Kind.ROUTE, False, True)),
        ([b"LMSG a 5\r\n"], Role.CLIENT, Context(Role.CLIENT, Kind.LEAFNODE)),
    ],
)
def test_the_likeliest_context_fits_the_evidence_of_both_sides(
    lines: list[bytes], sender: Role, expected: Context
) -> None:
    assert evidence_of(*lines).likeliest(sender, Evidence()) == expected


def test_pings_are_no_evidence_of_a_kind() -> None:
    assert not evidence_of(b"PING\r\n").is_conclusive
    assert evidence_of(b"PUB a 5\r\n").is_conclusive


def test_a_gateway_sends_messages_one_way() -> None:
    messages, interest = evidence_of(b"RMSG A a 5\r\n"), evidence_of(b"RS+ A a\r\n")
    assert sends_messages(messages, interest) is messages
    assert sends_messages(interest, messages) is messages
    assert sends_messages(messages, evidence_of(b"PONG\r\n")) is None
    assert messages.observe(["RS+"])
    assert not messages.observe(["RS+", "RMSG"])
    assert sends_messages(messages, interest) is None


@pytest.mark.parametrize(
    "info, kind",
    [
        (ServerInfo(server_id="GWX", gateway="east", gateway_cmd=1), Kind.ROUTE),
        (ServerInfo(server_id="NX", gateway="east", gateway_cmd=1), Kind.GATEWAY),
        (ServerInfo(gateway="east", gateway_cmd=2), Kind.GATEWAY),
        (ServerInfo(server_id="NX", ip="nats-route://10.0.0.1:6222/"), Kind.ROUTE),
        (ServerInfo(server_id="NX", client_id=7), Kind.CLIENT),
        (ServerInfo(server_id="NX"), None),
    ],
)
def test_later_infos_show_the_kind(info: ServerInfo, kind: Kind | None) -> None:
    assert kind_of_news(info) is kind


def test_the_connect_is_stronger_than_an_info_with_a_nonce() -> None:
    conversation = (
        FramedConversation()
        .say(RESPONDER, b'INFO {"server_id":"NS","nonce":"abc"} \r\n')
        .say(ORIGINATOR, CONNECT)
    )
    conversation.say(ORIGINATOR, b"PUB a 0\r\n\r\n").say(RESPONDER, b"MSG a 1 0\r\n\r\n").over()
    assert conversation.framing.kind is Kind.CLIENT
    assert (conversation.ops(ORIGINATOR), conversation.ops(RESPONDER)) == (
        ["CONNECT", "PUB"],
        ["INFO", "MSG"],
    )
    assert conversation.notes == []


def test_a_gateway_that_looks_like_a_route_until_its_acceptor_speaks() -> None:
    conversation = FramedConversation(midstream=True).say(ORIGINATOR, *[b"RMSG A a 0\r\n\r\n"] * 3)
    conversation.say(RESPONDER, *[b"PONG\r\n"] * 3)
    assert conversation.framing.kind is Kind.ROUTE
    conversation = conversation.say(RESPONDER, b"RS+ A b\r\n").over()
    assert conversation.framing.kind is Kind.GATEWAY


def test_frames_are_read_at_once_after_a_gateway_shows_who_has_opened_it() -> None:
    conversation = FramedConversation(midstream=True)
    conversation.say(ORIGINATOR, b"RS+ SHOP _INBOX.east.*\r\n")
    conversation.say(RESPONDER, *[b"RMSG SHOP _GR_.jXch21.Xr8NBN._INBOX.east.1 1\r\n2\r\n"] * 2)
    conversation.say(ORIGINATOR, b"RS+ SHOP price\r\n")
    assert conversation.framing.kind is Kind.GATEWAY
    before = len(conversation.ops(RESPONDER))
    conversation.say(RESPONDER, b"RMSG SHOP price 2\r\n17\r\n")
    assert conversation.ops(RESPONDER)[before:] == ["RMSG"]
    conversation.over()
    assert conversation.notes == []


def test_a_route_that_looks_like_a_gateway_until_it_does_not() -> None:
    conversation = FramedConversation(midstream=True).say(ORIGINATOR, *[b"RMSG A a 0\r\n\r\n"] * 3)
    conversation.say(RESPONDER, *[b"RS+ A b\r\n"] * 3)
    assert conversation.framing.kind is Kind.GATEWAY
    conversation = conversation.say(RESPONDER, *[b"RMSG A c 0\r\n\r\n"] * 3).over()
    assert conversation.framing.kind is Kind.ROUTE
    assert conversation.ops(RESPONDER) == ["RS+"] * 3 + ["RMSG"] * 3
    assert conversation.notes == []


def test_pongs_between_losses_do_not_undo_what_is_known() -> None:
    conversation = (
        FramedConversation(midstream=True)
        .say(ORIGINATOR, *[b"MSG a 1 0\r\n\r\n"] * 3)
        .lose(ORIGINATOR, 9)
    )
    conversation.swapped = False
    conversation.say(RESPONDER, b"PONG\r\n", b"PONG\r\n")
    assert conversation.framing.kind is Kind.CLIENT


def test_the_latest_chain_counts_where_no_context_fits_the_sender() -> None:
    evidence = Evidence()
    gateway, route = Context(Role.SERVER, Kind.GATEWAY), Context(Role.CLIENT, Kind.ROUTE)
    evidence.add(Chain(0, (gateway,)))
    evidence.add(Chain(0, (route, gateway)))
    assert evidence.likeliest(Role.CLIENT, Evidence()) == route
    assert evidence.likeliest(Role.SERVER, Evidence()) == gateway
