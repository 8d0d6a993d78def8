"""Messages as users see them: text, headers with order, case and repetition, respond."""

from __future__ import annotations

import pytest

from natsync.errors import MsgNoReplyError, ProtocolError
from natsync.message import Headers, HeadersLike, Msg, encode_headers, to_wire
from natsync.protocol import HMsg
from natsync.protocol import Msg as MsgFrame

Sent = list[tuple[str, bytes, HeadersLike | None]]
BLOCK = b"NATS/1.0 503 No Responders\r\nA: 1\r\nb: x\r\nA:  2 \r\na: 3\r\n\r\n"


def received(frame: MsgFrame | HMsg) -> tuple[Msg, Sent]:
    sent: Sent = []

    def publish(
        subject: str, data: bytes | bytearray | memoryview, *, headers: HeadersLike | None
    ) -> None:
        sent.append((subject, bytes(data), headers))

    return Msg(frame, publish), sent


def test_a_plain_message() -> None:
    msg, _ = received(MsgFrame("grüße".encode(), b"1", b"re", b"\x00\xff"))
    assert (msg.subject, msg.reply, msg.data) == ("grüße", "re", b"\x00\xff")
    assert (len(msg.headers), msg.status, msg.description) == (0, 0, "")
    assert repr(msg) == "Msg(subject='grüße', reply='re', 2 bytes)"


def test_headers_keep_order_case_and_repetition() -> None:
    msg, _ = received(HMsg(b"s", b"1", b"", BLOCK, b""))
    headers = msg.headers
    assert headers is msg.headers
    assert headers.items() == [("A", "1"), ("b", "x"), ("A", "2"), ("a", "3")]
    assert headers["A"] == headers.get("A") == "1"
    assert headers.get_all("A") == ["1", "2"]
    assert list(headers) == headers.keys() == ["A", "b", "a"]
    assert (len(headers), "A" in headers, "B" in headers) == (3, True, False)
    assert headers.to_dict() == {"A": ["1", "2"], "b": ["x"], "a": ["3"]}
    assert (headers.get("x"), headers.get("x", "y"), headers.get_all("x")) == (None, "y", [])
    with pytest.raises(KeyError):
        headers["x"]
    assert (msg.status, msg.description) == (503, "No Responders")


def test_headers_compare_by_content() -> None:
    assert Headers([("a", "1")]) == Headers([("a", "1")]) != Headers([("A", "1")])
    assert len({Headers([("a", "1")]), Headers([("a", "1")])}) == 1
    assert repr(Headers([("a", "1")])) == "Headers([('a', '1')])"


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


def test_encoding_headers() -> None:
    block = b"NATS/1.0\r\nA: 1\r\nA: 2\r\nb: \xc3\xa4\r\n\r\n"
    assert encode_headers({"A": ["1", "2"], "b": "ä"}) == block
    msg, _ = received(HMsg(b"s", b"1", b"", block, b""))
    assert encode_headers(msg.headers) == block


@pytest.mark.parametrize("bad", [{"a b": "1"}, {"a:": "1"}, {"": "1"}, {"a": "1\r\nb: 2"}])
def test_headers_that_cannot_be_carried(bad: dict[str, str]) -> None:
    with pytest.raises(ProtocolError):
        encode_headers(bad)


@pytest.mark.parametrize("bad", [{"a": [1]}, {"a": [b"1"]}, {1: "x"}, {"a": 1}])
def test_headers_of_the_wrong_type(bad: dict[str, str]) -> None:
    with pytest.raises(TypeError):
        encode_headers(bad)


def test_a_lone_surrogate_cannot_be_sent() -> None:
    with pytest.raises(ProtocolError):
        to_wire("a\ud800")
