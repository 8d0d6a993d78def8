"""Messages as users see them: made or received, compared, pickled, answered."""

from __future__ import annotations

import pickle

import pytest

from natsync.errors import MaxPayloadError, MsgNoReplyError, MsgNotBoundError, ProtocolError
from natsync.headers import HeadersLike
from natsync.message import Data, Msg, ReceivedMsg, wire_reply
from natsync.protocol import HMsg
from natsync.protocol import Msg as MsgFrame
from natsync.protocol import Pub

from tests.support.fake_server import FakeServer

Sent = list[tuple[str, bytes, HeadersLike | None]]
BLOCK = b"NATS/1.0 503 No Responders\r\nA: 1\r\nb: x\r\nA:  2 \r\na: 3\r\n\r\n"


def received(frame: MsgFrame | HMsg) -> tuple[Msg, Sent]:
    sent: Sent = []

    def respond(msg: Msg, data: Data, *, headers: HeadersLike | None) -> None:
        wire_reply(msg)
        sent.append((msg.reply, bytes(data), headers))

    return ReceivedMsg(frame, respond), sent


def test_a_plain_message() -> None:
    msg, _ = received(MsgFrame("grüße".encode(), b"1", b"re", b"\x00\xff"))
    assert (msg.subject, msg.reply, msg.data) == ("grüße", "re", b"\x00\xff")
    assert (len(msg.headers), msg.status, msg.description) == (0, 0, "")
    assert repr(msg) == "Msg(subject='grüße', reply='re', 2 bytes)"


def test_the_bytes_of_the_headers() -> None:
    assert received(HMsg(b"s", b"1", b"", b"NOPE\r\n\r\n", b""))[0].header_block == b"NOPE\r\n\r\n"
    assert received(MsgFrame(b"s", b"1", b"", b""))[0].header_block == b""


def test_a_bad_block_is_an_error_where_it_is_asked_for() -> None:
    msg, _ = received(HMsg(b"s", b"1", b"", b"NOPE\r\n\r\n", b"data"))
    assert msg.data == b"data"
    with pytest.raises(ProtocolError):
        msg.headers
    with pytest.raises(ProtocolError):
        msg.status


def test_strange_bytes_survive_an_answer() -> None:
    msg, sent = received(MsgFrame(b"\xffs", b"1", b"\xfer", b""))
    msg.respond(b"x")
    assert sent[0][0].encode("utf-8", "surrogateescape") == b"\xfer"


def test_respond_does_not_echo_headers() -> None:
    msg, sent = received(HMsg(b"s", b"1", b"re", b"NATS/1.0\r\nAuthorization: x\r\n\r\n", b""))
    msg.respond(b"1")
    msg.respond(b"2", headers={"k": "v"})
    assert sent == [("re", b"1", None), ("re", b"2", {"k": "v"})]


def test_respond_without_a_reply_subject() -> None:
    msg, sent = received(MsgFrame(b"s", b"1", b"", b""))
    with pytest.raises(MsgNoReplyError, match="message on s does not"):
        msg.respond(b"x")
    assert sent == []


def test_a_message_made_by_the_program_is_one_that_was_received() -> None:
    made = Msg("grüße", b"hi", reply="re", headers={"A": ["1", "2"]})
    frame = HMsg("grüße".encode(), b"7", b"re", b"NATS/1.0\r\nA: 1\r\nA:  2 \r\n\r\n", b"hi")
    msg, _ = received(frame)
    assert made == msg and hash(made) == hash(msg)
    assert (made.subject, made.data, made.reply) == ("grüße", b"hi", "re")
    assert made.headers.get_all("A") == ["1", "2"]


@pytest.mark.parametrize(
    "other",
    [
        Msg("b", b"1", reply="r", headers={"k": "v"}),
        Msg("a", b"2", reply="r", headers={"k": "v"}),
        Msg("a", b"1", reply="s", headers={"k": "v"}),
        Msg("a", b"1", reply="r", headers={"k": "w"}),
        Msg("a", b"1", reply="r"),
        "a",
    ],
)
def test_messages_differ_by_any_part(other: object) -> None:
    assert Msg("a", b"1", reply="r", headers={"k": "v"}) != other


def test_broken_header_blocks_are_equal_only_byte_by_byte() -> None:
    broken, same, other = (
        received(HMsg(b"s", b"1", b"", block, b""))[0]
        for block in (b"NOPE\r\n\r\n", b"NOPE\r\n\r\n", b"NO\r\n\r\n")
    )
    assert broken == same
    assert broken != other


def test_a_pickled_message_keeps_its_content_and_leaves_its_connection() -> None:
    msg, sent = received(HMsg(b"s\xff", b"1", b"re", BLOCK, b"data"))
    again = pickle.loads(pickle.dumps(msg))
    assert again == msg and again.status == 503
    with pytest.raises(MsgNotBoundError, match="message on .* belongs to no connection"):
        again.respond(b"x")
    assert sent == []


def test_a_message_made_by_the_program_has_nobody_to_respond_through() -> None:
    with pytest.raises(MsgNotBoundError):
        Msg("a", reply="re").respond(b"x")
    with pytest.raises(MsgNoReplyError):
        Msg("a").respond(b"x")


@pytest.mark.parametrize(
    "arguments", [(b"a", b""), ("a", "text"), ("a", None)], ids=["subject", "text", "none"]
)
def test_parts_of_the_wrong_type(arguments: tuple[str, bytes]) -> None:
    with pytest.raises(TypeError, match="^(subject|data) must be"):
        Msg(*arguments)


@pytest.mark.parametrize("data", [b"", b"!", bytearray(b"xy"), memoryview(b"abcd").cast("H")])
def test_responding(data: bytes | bytearray | memoryview) -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a")
        peer.send(MsgFrame(b"a", peer.subscribed(), "zurück".encode(), b"?"))
        nc.respond(sub.next_msg(5), data)
        sent = peer.expect(Pub)
        assert (sent.subject, sent.reply, sent.payload) == ("zurück".encode(), b"", bytes(data))


def test_responding_to_nobody() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a")
        sid = peer.subscribed()
        peer.send(MsgFrame(b"a", sid, b"", b"?"), MsgFrame(b"a", sid, b"back", b"?"))
        with pytest.raises(MsgNoReplyError):
            nc.respond(sub.next_msg(5))
        with pytest.raises(MsgNotBoundError):
            nc.respond(Msg("a", reply="b c"))
        msg = sub.next_msg(5)
        with pytest.raises(MaxPayloadError):
            nc.respond(msg, bytes(nc.server_info.max_payload + 1))
        with pytest.raises(TypeError, match="data must be bytes, not str"):
            nc.respond(msg, "text")  # type: ignore[arg-type]  # on purpose
