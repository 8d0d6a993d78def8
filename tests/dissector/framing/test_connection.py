"""Both directions together: whether it is NATS, of which kind, and who opened the connection."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dissect.nats.framing import FrameStream, Quota, Verdict
from dissect.nats.framing.connection import UnreadItems
from dissect.nats.types import Chunk, Direction
from natsync.protocol import Kind, LUnsub, RMsg
from natsync.protocol.websocket import Opcode, build_frame

from tests.support.conversations import CONNECT, INFO, ORIGINATOR, RESPONDER, FramedConversation

SERVER_ID = b"N" + b"A" * 55
ROUTE_INFO = b'INFO {"server_id":"' + SERVER_ID + b'","nonce":"x","lnoc":true,"lnocu":true%s} \r\n'
ROUTE_CONNECT = b'CONNECT {"name":"' + SERVER_ID + b'","cluster":"C"}\r\n'


def test_a_client_connection_is_recognized_by_its_handshake() -> None:
    conversation = (
        FramedConversation()
        .client()
        .say(ORIGINATOR, b"SUB a 1\r\n")
        .say(RESPONDER, b"MSG a 1 0\r\n\r\n")
        .over()
    )
    assert conversation.framing.kind is Kind.CLIENT
    assert conversation.framing.facts.handshake
    assert conversation.ops(RESPONDER) == ["INFO", "MSG"]


def test_a_route_whose_connect_comes_before_the_info() -> None:
    conversation = (
        FramedConversation().say(ORIGINATOR, ROUTE_CONNECT).say(RESPONDER, ROUTE_INFO % b"")
    )
    conversation.say(ORIGINATOR, ROUTE_INFO % b"", b"RS+ A foo\r\nLS- L A foo\r\n").over()
    assert conversation.framing.kind is Kind.ROUTE
    removed = conversation.frames(ORIGINATOR)[-1]
    assert isinstance(removed, LUnsub) and removed.origin == b"L"


def test_a_dedicated_route_leaves_the_account_out_both_ways() -> None:
    conversation = (
        FramedConversation().say(RESPONDER, ROUTE_INFO % b"").say(ORIGINATOR, ROUTE_CONNECT)
    )
    conversation.say(
        ORIGINATOR, ROUTE_INFO % b',"route_account":"BANK"' + b"RMSG balance reply.x 0\r\n\r\n"
    )
    conversation.say(RESPONDER, b"RMSG balance reply.x 0\r\n\r\n").over()
    assert conversation.framing.account == "BANK"
    for sender in Direction:
        message = conversation.frames(sender)[-1]
        assert isinstance(message, RMsg)
        assert (message.subject, message.reply, message.account) == (b"balance", b"reply.x", b"")


def test_connect_shows_the_kind_where_an_old_server_does_not() -> None:
    conversation = FramedConversation().say(
        RESPONDER, b'INFO {"server_id":"abc","version":"0.8.0"} \r\n'
    )
    conversation.say(ORIGINATOR, b"SUB a", b" 1\r\n", b"PUB a 0\r\n\r\n", b"PING\r\n")
    conversation.say(RESPONDER, b"MSG a 1 0\r\n\r\n", b"PONG\r\n").over()
    assert conversation.framing.kind is Kind.CLIENT
    assert conversation.ops(ORIGINATOR) == ["SUB", "PUB", "PING"]
    assert conversation.ops(RESPONDER) == ["INFO", "MSG", "PONG"]


def test_a_route_of_server_1_x_without_its_beginning() -> None:
    lines = b"SUB a  RSID:3:1\r\n" * 3
    conversation = FramedConversation(midstream=True).say(ORIGINATOR, lines, lines).over()
    assert conversation.framing.kind is Kind.ROUTE


@pytest.mark.parametrize(
    "sender, line, kind, swapped",
    [
        (ORIGINATOR, b"PUB a 0\r\n\r\n", Kind.CLIENT, False),
        (ORIGINATOR, b"MSG a 1 0\r\n\r\n", Kind.CLIENT, True),
        (ORIGINATOR, b"HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n\r\n", Kind.CLIENT, True),
        (ORIGINATOR, b"LMSG a 0\r\n\r\n", Kind.LEAFNODE, False),
        (ORIGINATOR, b"RMSG A a 0\r\n\r\nRS+ A b\r\n", Kind.ROUTE, False),
        (ORIGINATOR, b"A- A\r\nRS+ A b\r\n", Kind.GATEWAY, True),
    ],
)
def test_midstream_operations_show_kind_and_roles(
    sender: Direction, line: bytes, kind: Kind, swapped: bool
) -> None:
    conversation = FramedConversation(midstream=True).say(sender, line, line, line).over()
    assert conversation.framing.kind is kind
    assert conversation.swapped is swapped
    assert not conversation.framing.facts.handshake


def test_messages_one_way_and_interest_the_other_is_a_gateway() -> None:
    conversation = FramedConversation(midstream=True).say(ORIGINATOR, *[b"RMSG A a 0\r\n\r\n"] * 3)
    conversation.say(RESPONDER, *[b"RS+ A b\r\n"] * 3).over()
    assert conversation.framing.kind is Kind.GATEWAY


def test_midstream_the_greeting_may_be_there_without_the_syn() -> None:
    conversation = (
        FramedConversation(midstream=True)
        .say(ORIGINATOR, INFO)
        .say(RESPONDER, CONNECT + b"PING\r\n")
        .over()
    )
    assert conversation.swapped
    assert conversation.framing.facts.handshake
    assert conversation.framing.kind is Kind.CLIENT


def test_pings_alone_are_a_connection_of_unknown_kind() -> None:
    conversation = (
        FramedConversation(midstream=True)
        .say(ORIGINATOR, b"PING\r\n")
        .say(RESPONDER, b"PONG\r\n")
        .over()
    )
    assert conversation.framing.verdict is Verdict.NATS
    assert conversation.framing.kind is None
    assert conversation.ops(ORIGINATOR) == ["PING"]


@pytest.mark.parametrize(
    "first, second",
    [
        (b"GET /varz HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n{}"),
        (b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"),
        (b"PING\r\n", b"+PONG\r\n"),
        (b"\x16\x03\x01\x02\x00", b"\x16\x03\x03\x00\x7a"),
        (b"SSH-2.0-OpenSSH\r\n", b"SSH-2.0-OpenSSH\r\n"),
        (b"EHLO x\r\n", b"220 mail\r\n"),
    ],
)
def test_other_protocols_are_no_nats(first: bytes, second: bytes) -> None:
    conversation = (
        FramedConversation()
        .say(ORIGINATOR, first)
        .say(RESPONDER, second)
        .say(ORIGINATOR, first * 3)
        .over()
    )
    assert conversation.framing.verdict is not Verdict.NATS
    assert conversation.events == []


def test_a_hint_sets_the_kind_and_proves_nats() -> None:
    conversation = (
        FramedConversation(midstream=True, hint=Kind.LEAFNODE)
        .say(ORIGINATOR, b"PING\r\n", b"PING\r\n")
        .over()
    )
    assert conversation.framing.kind is Kind.LEAFNODE
    assert conversation.ops(ORIGINATOR) == ["PING", "PING"]


@pytest.mark.parametrize("midstream", [True, False])
@pytest.mark.parametrize("first", [ORIGINATOR, RESPONDER])
def test_a_hint_determines_how_lines_are_parsed(midstream: bool, first: Direction) -> None:
    """Midstream it does not say which side is the client."""
    conversation = FramedConversation(midstream, hint=Kind.CLIENT)
    client = first if midstream else ORIGINATOR
    for _ in range(3):
        conversation.say(client, b"PUB a 5\r\nhello\r\n" * 3)
        conversation.say(client.other, b"MSG a 1 5\r\nhello\r\n" * 3)
    conversation.over()
    assert Counter(conversation.ops(client) + conversation.ops(client.other)) == {
        "PUB": 9,
        "MSG": 9,
    }


def test_messages_that_no_gateway_sends_are_read_beside_interest() -> None:
    """Each would have the other side to be the client; that comes to an end."""
    headed = b"HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
    conversation = FramedConversation(midstream=True).say(ORIGINATOR, b"RS+ A b\r\n" * 6)
    conversation.say(RESPONDER, (b"MSG a 1 2\r\nhi\r\n" + headed) * 6).over()
    assert conversation.ops(RESPONDER) == ["MSG", "HMSG"] * 6


@pytest.mark.parametrize("first, second", [(b"PING\r\n", b"PONG\r\n"), (b"PONG\r\n", b"PING\r\n")])
@pytest.mark.parametrize("way", list(Direction))
def test_one_message_after_half_a_payload_is_proven_by_ping_and_pong(
    way: Direction, first: bytes, second: bytes
) -> None:
    conversation = FramedConversation(midstream=True).say(
        way, b"of a payload\r\nPUB a 5\r\nhello\r\n" + first
    )
    conversation.say(way.other, second).over()
    assert conversation.framing.kind is Kind.CLIENT
    client = RESPONDER if conversation.swapped is (way is ORIGINATOR) else ORIGINATOR
    assert conversation.ops(client) == ["PUB", first[:4].decode()]
    assert conversation.ops(client.other) == [second[:4].decode()]


@pytest.mark.parametrize("answer", [b"", b"+PONG\r\n", b"PONG\r\nmore", b"PING\r\n", b"+OK\r\n"])
def test_one_message_after_half_a_payload_is_no_proof_without_the_answer(answer: bytes) -> None:
    conversation = FramedConversation(midstream=True).say(
        ORIGINATOR, b"half\r\nPUB a 5\r\nhello\r\nPING\r\n"
    )
    if answer:
        conversation.say(RESPONDER, answer)
    assert conversation.over().framing.verdict is not Verdict.NATS


def test_s2_joined_midstream_proves_nats() -> None:
    magic = b"\xff\x06\x00\x00S2sTwO"
    conversation = (
        FramedConversation(midstream=True)
        .say(ORIGINATOR, b"rest", magic + b"abc")
        .say(RESPONDER, b"x", magic)
    )
    conversation.over()
    assert conversation.framing.facts.compression == "s2"
    assert conversation.framing.verdict is Verdict.NATS


def test_a_leafnode_over_websocket_whose_connect_looks_like_a_client() -> None:
    """Some programs that speak the protocol of leafnodes name their language there, as clients do."""
    get = b"GET /shop/leafnode?x=1 HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n"
    switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
    info = b'INFO {"server_id":"NS","client_id":7,"leafnode_urls":["a:7422"]} \r\n'
    conversation = FramedConversation().say(ORIGINATOR, get)
    conversation.say(RESPONDER, switch + build_frame(Opcode.BINARY, info))
    conversation.say(ORIGINATOR, build_frame(Opcode.BINARY, CONNECT + b"LS+ a\r\n", b"mask"))
    conversation.say(RESPONDER, build_frame(Opcode.BINARY, b"LMSG a 1\r\nx\r\n")).over()
    assert conversation.framing.kind is Kind.LEAFNODE
    assert conversation.ops(ORIGINATOR) == ["CONNECT", "LS+"]
    assert conversation.ops(RESPONDER) == ["INFO", "LMSG"]


PIECES = st.sampled_from(
    [
        b"PUB a 5\r\nhello\r\n",
        b"PUB a 500\r\n",
        b"MSG a 1 2\r\nhi\r\n",
        b"HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n\r\n",
        b"RS+ A b\r\n",
        b"RMSG A b | q 0\r\n\r\n",
        b"LS+ b\r\n",
        b"LMSG b 0\r\n\r\n",
        b"A- A\r\n",
        b"PING\r\n",
        b"PONG\r\n",
        b"+OK\r\n",
        b"-ERR 'x'\r\n",
        INFO,
        ROUTE_INFO % b"",
        CONNECT,
        ROUTE_CONNECT,
        b"\xff\x06\x00\x00S2sTwO",
        b"\x16\x03\x01",
        b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.1 101 x\r\n\r\n",
        b"\r\n",
        b"PU",
    ]
) | st.binary(max_size=40)
STEPS = st.lists(
    st.tuples(st.sampled_from(list(Direction)), PIECES | st.integers(1, 40)), max_size=40
)


S2_BEGINS = b"\xff\x06\x00\x00S2sTwO"


def test_a_gap_that_was_reported_before_its_layer_was_known_is_reported_once() -> None:
    conversation = FramedConversation(midstream=True).say(
        ORIGINATOR, b"PUB a 5\r\nhello\r\n", S2_BEGINS[:1]
    )
    conversation.lose(ORIGINATOR, 7).say(RESPONDER, S2_BEGINS).over()
    assert [note for note in conversation.notes if note[0] == "lost"] == [("lost", 17, 7)]


def test_a_gap_before_the_layer_stays_reported() -> None:
    conversation = (
        FramedConversation(midstream=True).lose(RESPONDER, 3).say(RESPONDER, b"PUB a 500\r\n", INFO)
    )
    conversation.say(RESPONDER, b"PONG\r\n", S2_BEGINS[:3]).over()
    assert ("lost", 0, 3) in conversation.notes


@given(STEPS, st.booleans(), st.none() | st.sampled_from(list(Kind)))
@example(
    [(Direction.ORIGINATOR, b"\r\n"), (Direction.RESPONDER, b"PUB a 5\r\nhello\r\n")], False, None
)
@example(  # a layer begins in what another one held until the end
    [
        (Direction.RESPONDER, b"PONG\r\n"),
        (Direction.RESPONDER, b"\x16\x03\x01"),
        (Direction.ORIGINATOR, b"\r\n"),
        (Direction.RESPONDER, b"PONG\r\n"),
    ],
    False,
    Kind.CLIENT,
)
@example(  # one direction has S2, the other one TLS
    [
        (Direction.RESPONDER, b"PONG\r\n"),
        (Direction.ORIGINATOR, S2_BEGINS),
        (Direction.RESPONDER, b"\x16\x03\x01"),
        (Direction.RESPONDER, S2_BEGINS[:3]),
        (Direction.RESPONDER, S2_BEGINS[:3]),
    ],
    False,
    Kind.LEAFNODE,
)
@example(
    [(Direction.ORIGINATOR, b"PUB a 5\r\nhello\r\n"), (Direction.ORIGINATOR, b"\x16\x03\x01")],
    False,
    Kind.CLIENT,
)
def test_any_bytes_are_accounted_for(
    steps: list[tuple[Direction, bytes | int]], midstream: bool, hint: Kind | None
) -> None:
    conversation = FramedConversation(midstream, payloads=False, hint=hint)
    for sender, step in steps:
        sender = sender.other if conversation.swapped else sender
        if isinstance(step, int):
            conversation.lose(sender, step)
        elif step:
            conversation.say(sender, step)
    conversation.over()


def chunk(number: int) -> Chunk:
    return Chunk(number, number, "t.pcap", number, b"x")


ONE, OTHER = (FrameStream(way, Quota(), False) for way in Direction)


def test_unread_items_come_in_order() -> None:
    items = [(ONE, chunk(1)), (OTHER, chunk(2)), (ONE, chunk(3))]
    unread = UnreadItems()
    assert list(unread.each(items)) == items
    assert unread.withdraw(ONE) == []


def test_a_layer_withdraws_the_unread_items_of_its_stream() -> None:
    unread = UnreadItems()
    outer = unread.each([(ONE, chunk(1)), (ONE, chunk(4)), (OTHER, chunk(5))])
    next(outer)
    inner = unread.each([(ONE, chunk(2)), (ONE, chunk(3))])
    next(inner)
    assert unread.withdraw(ONE) == [chunk(3), chunk(4)]
    assert list(inner) == []
    assert list(outer) == [(OTHER, chunk(5))]
