"""Requests and their replies."""

from __future__ import annotations

from dissect.nats.sessions.requests import Requests
from natsync.protocol import HMsg, Msg, Pub


def test_replies_are_counted_by_their_subject() -> None:
    requests = Requests()
    requests.send(Pub(b"svc", b"_INBOX.1"))
    requests.receive(Msg(b"_INBOX.1", b"1"))
    requests.receive(Msg(b"_INBOX.1", b"1"))
    requests.receive(Msg(b"news", b"2"))
    assert (requests.sent, requests.replies, requests.no_responders) == (1, 2, 0)


def test_nobody_listens() -> None:
    requests = Requests()
    requests.send(Pub(b"svc", b"_INBOX.1"))
    requests.receive(HMsg(b"_INBOX.1", b"1", b"", b"NATS/1.0 503\r\n\r\n"))
    requests.receive(HMsg(b"_INBOX.1", b"1", b"", b"no header block"))
    assert (requests.sent, requests.replies, requests.no_responders) == (1, 1, 1)


def test_memory_is_bounded() -> None:
    requests = Requests()
    for number in range(10_000):
        requests.send(Pub(b"svc", b"_INBOX.%d" % number))
    requests.receive(Msg(b"_INBOX.1", b"1"))
    assert requests.replies == 0
    requests.receive(Msg(b"_INBOX.9000", b"1"))
    assert requests.replies == 1
