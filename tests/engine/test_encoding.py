"""Messages as bytes: what is sent, what is refused at the caller, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsync import errors
from natsync._engine import encoding
from natsync._engine.encoding import MessageEncoder
from natsync.headers import to_wire
from natsync.message import encode_headers
from natsync.protocol import (
    HPub,
    Info,
    Ping,
    Pong,
    ProtocolError,
    Pub,
    ServerInfo,
    check_publish,
    encode,
)

from tests.support.fake_server import FakeServer

INFO = ServerInfo(headers=True)
HEADERS = {"Nats-Msg-Id": "1", "ä".encode().hex(): "ä"}


@pytest.mark.parametrize("reply", [None, "", "re.ply"])
@pytest.mark.parametrize("data", [b"", b"hello", bytearray(b"hello"), memoryview(b"h.e.l")[::2]])
def test_a_message_is_what_the_codec_writes(
    reply: str | None, data: bytes | bytearray | memoryview
) -> None:
    encoder = MessageEncoder(INFO)
    to = (reply or "").encode()
    for _ in range(2):  # the second time the subject is known
        plain = Pub(b"a.b", to, bytes(data))
        assert encoder.message("a.b", data, reply, None) == encode(plain)
        headed = HPub(b"a.b", to, encode_headers(HEADERS), bytes(data))
        assert encoder.message("a.b", data, reply, HEADERS) == encode(headed)
        if to:
            assert encoder.request_to("a.b", data, to) == encode(plain)
            inbox, token = to[:1], to[1:]
            assert encoder.request("a.b", data, inbox, token, None) == encode(plain)
            assert encoder.request("a.b", data, inbox, token, HEADERS) == encode(headed)


def test_what_the_caller_puts_together_is_a_message() -> None:
    encoder = MessageEncoder(INFO)
    for size in (77, encoding.LARGE - 1, encoding.LARGE):
        wire = encoder.message("a", b"x" * size, "r", None)
        to = encoder.wire_pair("a", "r")
        line_end = encoding.SIZE_LINES[size] if size < encoding.LARGE else b" %d\r\n" % size
        assert b"".join((b"PUB ", to, line_end, b"x" * size, b"\r\n")) == wire


def test_the_first_subjects_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_SUBJECTS", 10)
    encoder = MessageEncoder(INFO)
    for number in range(100):
        wire = encoder.message(f"s{number}", b"", None, None)
        assert wire == b"PUB s%d 0\r\n\r\n" % number
    assert encoder.subjects == {f"s{number}": b"s%d" % number for number in range(10)}


def test_others_get_the_room_when_they_are_published_to_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encoding, "_SUBJECTS", 10)
    monkeypatch.setattr(encoding, "_TRIAL", 20)
    monkeypatch.setattr(encoding, "_RENEWAL", 100)
    encoder = MessageEncoder(INFO)
    for number in [*range(10), *range(20, 30)] * 20:
        encoder.message(f"s{number}", b"", None, None)
    for _ in range(20):
        for number in range(40, 50):
            assert encoder.message(f"s{number}", b"", None, None) == b"PUB s%d 0\r\n\r\n" % number
    assert encoder.subjects == {f"s{number}": b"s%d" % number for number in range(40, 50)}


@pytest.mark.parametrize("others, looks", [(7, True), (9, False)])
def test_subjects_are_looked_up_only_where_enough_repeat(
    monkeypatch: pytest.MonkeyPatch, others: int, looks: bool
) -> None:
    """After `others` other messages there is one to the same subject."""
    monkeypatch.setattr(encoding, "_SUBJECTS", 10)
    monkeypatch.setattr(encoding, "_TRIAL", 100)
    monkeypatch.setattr(encoding, "_RENEWAL", 1000)
    encoder = MessageEncoder(INFO)
    for number in range(900):
        for subject in [f"s{number}"] if number % others else [f"s{number}", "often"]:
            assert encoder.message(subject, b"", None, None) == encode(Pub(subject.encode()))
    assert (encoder.recall("often") == b"often") is looks
    for number in range(200):  # which begins anew
        encoder.message(f"t{number}", b"", None, None)
        assert encoder.message("often", b"", None, None) == b"PUB often 0\r\n\r\n"
    assert encoder.recall("often") == b"often"


def test_a_large_request_is_the_same_in_pieces() -> None:
    encoder = MessageEncoder(ServerInfo(max_payload=5000))
    whole = encoder.request("a.b", bytes(5000), b"r", b"1", None)
    pieces = encoder.large_request("a.b", data := bytes(5000), b"r", b"1")
    assert b"".join(pieces) == whole and pieces[1] is data
    with pytest.raises(errors.MaxPayloadError):
        encoder.large_request("a.b", bytes(5001), b"r", b"1")


def test_reply_subjects_are_not_kept() -> None:
    encoder = MessageEncoder(INFO)
    for number in range(100):
        encoder.message("a", b"", f"r{number}", None)
        assert encoder.response(b"_INBOX.%d" % number, b"x", None) == (
            b"PUB _INBOX.%d 1\r\nx\r\n" % number
        )
    assert not encoder.subjects


def test_long_subjects_are_not_kept() -> None:
    encoder = MessageEncoder(INFO)
    for _ in range(3):
        encoder.message("x" * 1000, b"", None, None)
    assert not encoder.subjects


def test_subjects_that_are_not_plain_are_sent_as_well() -> None:
    encoder = MessageEncoder(INFO)
    for subject, wire in (
        ("a*", b"a*"),
        ("ä.\u00a0", b"\xc3\xa4.\xc2\xa0"),
        ("a.\udcff", b"a.\xff"),
        ("\x00", b"\0"),
    ):
        assert encoder.message(subject, b"", None, None) == b"PUB %b 0\r\n\r\n" % wire
        assert encoder.message("s", b"", subject, None) == b"PUB s %b 0\r\n\r\n" % wire


@pytest.mark.parametrize("headers", [None, HEADERS])
@pytest.mark.parametrize("data", [b"", b"hello", bytearray(b"hello"), memoryview(b"h.e.l")[::2]])
def test_a_response_is_what_the_codec_writes(
    data: bytes | bytearray | memoryview, headers: dict[str, str] | None
) -> None:
    wire = MessageEncoder(INFO).response(b"_INBOX.1", data, headers)
    if headers:
        assert wire == encode(HPub(b"_INBOX.1", b"", encode_headers(headers), bytes(data)))
    else:
        assert wire == encode(Pub(b"_INBOX.1", b"", bytes(data)))


def test_a_response_that_cannot_be_sent() -> None:
    encoder = MessageEncoder(ServerInfo(max_payload=4))
    with pytest.raises(errors.MaxPayloadError):
        encoder.response(b"a", b"12345", None)
    with pytest.raises(errors.HeadersNotSupportedError):
        encoder.response(b"a", b"", HEADERS)
    with pytest.raises(TypeError, match="data must be bytes"):
        encoder.response(b"a", "text", None)  # type: ignore[arg-type]  # as a caller may


@pytest.mark.parametrize(
    "subject, why",
    [
        ("", "'': is empty"),
        ("a b", "'a b': contains whitespace"),
        ("a\r\nPUB b 0", r"'a\\r\\nPUB b 0': contains whitespace"),
        ("a..b", "'a..b': contains an empty token"),
        (".a", "'.a': contains an empty token"),
        ("a.*", r"'a.\*': contains a wildcard"),
        (">", "'>': contains a wildcard"),
    ],
)
def test_an_invalid_subject_is_refused_each_time(subject: str, why: str) -> None:
    encoder = MessageEncoder(INFO)
    for _ in range(2):
        with pytest.raises(ProtocolError, match=f"^invalid subject {why}$"):
            encoder.message(subject, b"", None, None)
        if subject:
            with pytest.raises(ProtocolError, match=f"^invalid reply {why}$"):
                encoder.message("a", b"", subject, None)
    assert not encoder.subjects


LIMIT = 4096
INBOX = b"_INBOX.x."
BLOCK = len(encode_headers({"a": "b"}))


def longest(wire: bytes) -> None:
    """Checks that the server counts as many bytes as it takes: all but the op, its blank and the line end."""
    assert len(wire.split(b"\r\n", 1)[0].split(b" ", 1)[1]) == LIMIT


@pytest.mark.parametrize("size", [0, 7, 600, 70_000])
def test_the_longest_control_line_that_servers_take(size: int) -> None:
    encoder = MessageEncoder(INFO)
    data, digits = bytes(size), len(str(size))
    room = LIMIT - 1 - digits
    longest(encoder.message("x" * room, data, None, None))
    longest(encoder.message("x" * 2000, data, "y" * (room - 2001), None))
    longest(encoder.message("x" * 2000, bytearray(data), "y" * (room - 2001), None))
    longest(encoder.response(b"x" * room, data, None))
    longest(encoder.request_to("x" * 2000, data, b"y" * (room - 2001)))
    for token in (b"1", b"12345"):
        subject = "x" * (room - 1 - len(INBOX + token))
        longest(encoder.request(subject, data, INBOX, token, None))
        longest(encoder.large_request(subject, data, INBOX, token)[0])
    sizes = f" {BLOCK} {size + BLOCK}"
    longest(encoder.message("x" * (LIMIT - len(sizes)), data, None, {"a": "b"}))


@pytest.mark.parametrize("size", [0, 7, 600, 70_000])
def test_a_control_line_that_is_one_byte_too_long_is_refused(size: int) -> None:
    encoder = MessageEncoder(INFO)
    data, digits = bytes(size), len(str(size))
    subject, headers = "x" * (LIMIT - digits), {"a": "b"}
    calls: list[Callable[[], object]] = [
        lambda: encoder.message(subject, data, None, None),
        lambda: encoder.wire_subject(subject, size),
        lambda: encoder.message(subject[2001:], data, "y" * 2000, None),
        lambda: encoder.wire_pair(subject[2001:], "y" * 2000, size),
        lambda: encoder.response(subject.encode(), data, None),
        lambda: encoder.request_to(subject[2001:], data, b"y" * 2000),
        lambda: encoder.request(subject[len(INBOX) + 2 :], data, INBOX, b"1", None),
        lambda: encoder.large_request(subject[len(INBOX) + 2 :], data, INBOX, b"1"),
        lambda: encoder.message(
            "x" * (LIMIT - len(f"{BLOCK} {size + BLOCK}")), data, None, headers
        ),
    ]
    for call in calls:
        with pytest.raises(errors.MaxControlLineError, match="4097 bytes are over the limit"):
            call()


def test_the_token_of_a_request_counts_each_time() -> None:
    encoder = MessageEncoder(INFO)
    inbox = b"_INBOX." + b"x" * (LIMIT - 20)
    longest(encoder.request("a.b", b"", inbox, b"1234567", None))
    with pytest.raises(errors.MaxControlLineError):
        encoder.request("a.b", b"", inbox, b"12345678", None)


def test_what_cannot_be_sent() -> None:
    encoder = MessageEncoder(ServerInfo(max_payload=4))
    with pytest.raises(errors.MaxPayloadError):
        encoder.message("a", b"12345", None, None)
    with pytest.raises(errors.HeadersNotSupportedError):
        encoder.message("a", b"", None, {"name": "value"})
    for wrong in (1, b"a", ["a"], None):
        with pytest.raises(TypeError, match="subject must be str"):
            encoder.request(wrong, b"", b"r", b"1", None)  # type: ignore[arg-type]  # as a caller may
    with pytest.raises(TypeError, match="reply must be str"):
        encoder.message("a", b"", b"r", None)  # type: ignore[arg-type]  # as a caller may
    with pytest.raises(TypeError, match="data must be bytes"):
        encoder.message("a", "text", None, None)  # type: ignore[arg-type]  # as a caller may


def test_a_server_that_takes_less_is_believed_at_once() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        for _ in range(2):
            nc.request_async("x", b"12345")
            assert peer.until(Pub).payload == b"12345"
        peer.send(Info(b'{"max_payload":4}'), Ping())
        peer.expect(Pong)
        with pytest.raises(errors.MaxPayloadError):
            nc.request_async("x", b"12345")
        with pytest.raises(errors.MaxPayloadError):
            nc.publish("x", b"12345")
        nc.publish("x", b"1234")
        assert peer.until(Pub).payload == b"1234"


@given(st.text(alphabet="ab.*> \t\r\n\0é\udc80\ud800", max_size=6))
def test_a_subject_is_checked_as_the_protocol_says(subject: str) -> None:
    """Whichever of its two tests sees it; see `check_publish`."""
    encoder = MessageEncoder(INFO)
    try:
        wire = to_wire(subject)
        check_publish(wire)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            encoder.wire_subject(subject)
        with pytest.raises(ProtocolError):
            encoder.wire_pair(subject, "r")
    else:
        assert encoder.wire_subject(subject) == wire
        assert encoder.wire_pair(subject, "r") == wire + b" r"
