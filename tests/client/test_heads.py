"""What messages begin with, learned from whole ones."""

from __future__ import annotations

import pytest

from natsync import errors, heads
from natsync.heads import Heads
from natsync.protocol import Info, Ping, Pong, Pub, encode_publish

from tests.support.fake_server import FakeServer


def test_a_message_that_is_put_together_is_the_one_that_would_be_encoded() -> None:
    known = Heads()
    for subject, reply, data in [
        ("a", b"_INBOX.b.10", b"x" * 10),
        ("b.c", b"10", b""),
        ("d", b"d", b"d"),
    ]:
        assert known.ask(subject, reply, data) is None and known.get((subject, len(data))) is None
        asked = encode_publish(subject.encode(), reply, b"", data)
        known.learn_ask(subject, reply, asked, len(data))
        known.learn(subject, encode_publish(subject.encode(), b"", b"", data), len(data))
        other = data.upper()
        for token in (reply, b"_INBOX.other.77"):
            wire = encode_publish(subject.encode(), token, b"", other)
            assert known.ask(subject, token, other) == wire
        plain = encode_publish(subject.encode(), b"", b"", other)
        assert (known.get((subject, len(other))) or b"") + other + b"\r\n" == plain
        assert known.ask(subject, reply, data + b"!") is None


def test_room_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "_MOST", 2)
    known = Heads()
    for subject in ("a", "b", "c"):
        known.learn(subject, b"PUB %b 1\r\nx\r\n" % subject.encode(), 1)
        known.learn_ask(subject, b"r", b"PUB %b r 1\r\nx\r\n" % subject.encode(), 1)
    assert known.get(("a", 1)) is None and known.get(("c", 1)) == b"PUB c 1\r\n"
    assert (
        known.ask("a", b"r", b"x") is None and known.ask("c", b"q", b"x") == b"PUB c q 1\r\nx\r\n"
    )


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
