"""What messages begin with, learned from whole ones."""

from __future__ import annotations

import pytest

from natsync import errors
from natsync._engine import encoding
from natsync._engine.encoding import MessageEncoder
from natsync.protocol import Info, Ping, Pong, Pub, ServerInfo, encode_publish

from tests.support.fake_server import FakeServer

INFO = ServerInfo(headers=True)


def test_a_message_that_is_put_together_is_the_one_that_would_be_encoded() -> None:
    known = MessageEncoder(INFO)
    for subject, reply, data in [
        ("a", b"_INBOX.b.10", b"x" * 10),
        ("b.c", b"10", b""),
        ("d", b"d", b"d"),
    ]:
        assert known.get((subject, len(data))) is None
        for token in (reply, reply, b"_INBOX.other.77"):
            for payload in (data, data.upper(), data + b"!"):
                wire = encode_publish(subject.encode(), token, b"", payload)
                assert known.ask(subject, payload, token, None) == wire
        plain = encode_publish(subject.encode(), b"", b"", data)
        assert known.message(subject, data, None, None) == plain
        assert (known.get((subject, len(data))) or b"") + data.upper() + b"\r\n" == plain.replace(
            data + b"\r", data.upper() + b"\r"
        )


def test_only_what_is_the_same_every_time_is_known() -> None:
    known = MessageEncoder(INFO)
    known.message("a", b"x", "reply", None)
    known.message("a", b"x", None, {"name": "value"})
    known.message("a", bytearray(b"x"), None, None)
    assert known.get(("a", 1)) is None


def test_room_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_MOST", 2)
    known = MessageEncoder(INFO)
    for subject in ("a", "b", "c"):
        known.message(subject, b"x", None, None)
        assert known.ask(subject, b"x", b"r", None) == b"PUB %b r 1\r\nx\r\n" % subject.encode()
    assert known.get(("a", 1)) is None and known.get(("c", 1)) == b"PUB c 1\r\n"
    assert known.ask("a", b"x", b"q", None) == b"PUB a q 1\r\nx\r\n"


def test_what_cannot_be_sent() -> None:
    known = MessageEncoder(ServerInfo(max_payload=4))
    with pytest.raises(errors.MaxPayloadError):
        known.message("a", b"12345", None, None)
    with pytest.raises(errors.HeadersNotSupportedError):
        known.message("a", b"", None, {"name": "value"})
    with pytest.raises(TypeError, match="subject"):
        known.ask(1, b"", b"r", None)  # type: ignore[arg-type]  # as a caller may


def test_a_server_that_takes_less_is_believed_for_requests_too() -> None:
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
