"""An instrumentation is told of every message that is sent and handled, and of how that ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

import natsync
from natsync import errors
from natsync.headers import HeadersLike
from natsync.instrumentation import Instrumentation
from natsync.message import Data
from natsync.protocol import HPub, Msg, Pub

from tests.support.fake_server import Background, FakeServer
from tests.support.waiting import eventually

TIMEOUT = 10.0


class Notes(Instrumentation):
    """Notes what it is told, and adds a header."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, str]] = []
        self.ended: list[tuple[object, type | None]] = []
        self.handled: list[tuple[str, str, str]] = []

    def begin(
        self,
        client: natsync.Client,
        operation: str,
        subject: str,
        data: Data,
        headers: HeadersLike | None,
    ) -> tuple[object, HeadersLike | None]:
        assert client.status is natsync.Status.CONNECTED
        self.begun.append((operation, subject))
        return operation, {**dict(headers or {}), "Seen": "1"}

    def end(self, token: object, error: BaseException | None) -> None:
        self.ended.append((token, type(error) if error else None))

    @contextmanager
    def handling(
        self, client: natsync.Client, msg: natsync.Msg, subject: str, queue: str
    ) -> Iterator[None]:
        yield
        self.handled.append((msg.subject, subject, queue))


def test_every_way_to_send_is_reported_with_its_end() -> None:
    notes = Notes()
    with FakeServer() as server:
        connect = partial(natsync.connect, instrumentation=notes)
        with server.client(connect) as (nc, peer):
            nc.publish("a", b"1", headers={"K": "v"})
            assert peer.expect(HPub).headers == b"NATS/1.0\r\nK: v\r\nSeen: 1\r\n\r\n"
            nc.publish(natsync.Msg("b", b"2", reply="r"))
            assert peer.expect(HPub).reply == b"r"
            future = nc.request_async("c", timeout=TIMEOUT)
            asked = peer.until(HPub)
            peer.send(Msg(asked.reply, b"1", b"", b"x"))
            future.result(TIMEOUT)
            eventually(lambda: len(notes.ended) == 3)
            replies = nc.request_many("d", timeout=TIMEOUT, max_msgs=1)
            peer.send(Msg(peer.until(HPub).reply, b"1", b"", b"x"))
            assert len(list(replies)) == 1
            window = nc.open_window(5, lambda subject, payload: payload)
            later = window.request("e", timeout=TIMEOUT)
            peer.send(Msg(peer.until(HPub).reply, b"1", b"", b"x"))
            assert later.result(TIMEOUT) == b"x"
            eventually(lambda: len(notes.ended) == 5)
            with pytest.raises(errors.ProtocolError):
                nc.request("f g")
    assert notes.begun == [
        ("publish", "a"),
        ("publish", "b"),
        ("request_async", "c"),
        ("request_many", "d"),
        ("window", "e"),
        ("request", "f g"),
    ]
    assert [error for _, error in notes.ended] == [None] * 5 + [errors.ProtocolError]
    assert [token for token, _ in notes.ended] == [operation for operation, _ in notes.begun]


def test_a_request_may_be_a_message() -> None:
    notes = Notes()
    connect = partial(natsync.connect, instrumentation=notes)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        call = Background(lambda: nc.request(natsync.Msg("c", b"1", reply="r"), timeout=TIMEOUT))
        sid = peer.subscribed()
        asked = peer.until(HPub)
        assert asked.reply != b"r" and b"Seen: 1" in asked.headers
        peer.send(Msg(asked.reply, sid, b"", b"x"))
        assert call.result().data == b"x"
        assert notes.begun == [("request", "c")]


def test_handlers_and_their_answers() -> None:
    notes = Notes()
    connect = partial(natsync.connect, instrumentation=notes)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        nc.subscribe("svc.*", queue="q", handler=lambda msg: msg.respond(b"!"))
        peer.send(Msg(b"svc.a", peer.subscribed(), b"back", b"?"))
        assert peer.until(HPub).subject == b"back"
        eventually(lambda: notes.handled == [("svc.a", "svc.*", "q")])
        assert notes.begun == [("publish", "back")]


def test_an_answer_of_the_client_is_published() -> None:
    notes = Notes()
    connect = partial(natsync.connect, instrumentation=notes)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        sub = nc.subscribe("svc")
        peer.send(Msg(b"svc", peer.subscribed(), b"back", b"?"))
        nc.respond(sub.next_msg(5), b"!")
        assert peer.until(HPub).subject == b"back"
        assert notes.begun == [("publish", "back")]


@pytest.mark.parametrize(
    "subject, is_told",
    [
        ("$JS.ACK.S.c.1.2.3.4.0", False),
        ("imported.$JS.ACK.S.c.1.2.3.4.0", False),
        ("$JS.FC.S.c.x", False),
        ("$JS.API.CONSUMER.MSG.NEXT.S.c", False),
        ("api.of.other.CONSUMER.MSG.NEXT.S.c", False),
        ("$JS.API.STREAM.INFO.S", True),
        ("orders.$JS", True),
        ("MY$JS.ACK.a", True),
    ],
)
def test_what_the_client_tells_the_server_is_no_message(subject: str, is_told: bool) -> None:
    """Nor an acknowledgement that a package sends, such as the transport of kombu."""
    notes = Notes()
    connect = partial(natsync.connect, instrumentation=notes)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        sub = nc.subscribe("a")
        peer.send(Msg(b"a", peer.subscribed(), subject.encode(), b""))
        msg = sub.next_msg(TIMEOUT)
        nc.publish(subject, b"1", reply="r")
        nc.respond(msg, b"2")
        msg.respond(b"3")
        kind = HPub if is_told else Pub
        sent = [peer.expect(kind) for _ in range(3)]
    assert [frame.payload for frame in sent] == [b"1", b"2", b"3"]
    assert notes.begun == [("publish", subject)] * 3 * is_told


def test_several_are_told_each_inside_the_one_before() -> None:
    order: list[str] = []

    class Noted(Notes):
        def __init__(self, name: str, fails: bool = False) -> None:
            super().__init__()
            self.name, self.fails = name, fails

        def begin(
            self,
            client: natsync.Client,
            operation: str,
            subject: str,
            data: Data,
            headers: HeadersLike | None,
        ) -> tuple[object, HeadersLike | None]:
            order.append(f"begin {self.name}")
            if self.fails and subject == "b":
                raise ValueError
            return self.name, {**dict(headers or {}), self.name: "1"}

        def end(self, token: object, error: BaseException | None) -> None:
            assert token == self.name
            order.append(f"end {self.name} {type(error).__name__}")

        @contextmanager
        def handling(
            self, client: natsync.Client, msg: natsync.Msg, subject: str, queue: str
        ) -> Iterator[None]:
            order.append(f"in {self.name}")
            yield
            order.append(f"out {self.name}")

        def attached(self, client: natsync.Client) -> None:
            order.append(f"attached {self.name}")

        def reported(self, client: natsync.Client, error: natsync.Error) -> None:
            order.append(f"reported {self.name} {type(error).__name__}")

    connect = partial(natsync.connect, instrumentation=(Noted("a"), Noted("b", fails=True)))
    with FakeServer() as server, server.client(connect) as (nc, peer):
        assert order == ["attached a", "attached b"]
        nc.publish("a", b"1")
        assert peer.expect(HPub).headers == b"NATS/1.0\r\na: 1\r\nb: 1\r\n\r\n"
        assert order[2:] == ["begin a", "begin b", "end b NoneType", "end a NoneType"]
        with pytest.raises(ValueError):
            nc.publish("b", b"1")
        assert order[6:] == ["begin a", "begin b", "end a ValueError"]
        sub = nc.subscribe("a", handler=lambda msg: None)
        peer.send(Msg(b"a", peer.subscribed()))
        eventually(lambda: len(order) == 13)
        assert order[9:] == ["in a", "in b", "out b", "out a"]
        peer.send(b"-ERR 'no reason'\r\n")
        eventually(lambda: order[13:] == ["reported a ServerError", "reported b ServerError"])
        sub.unsubscribe()


def test_the_base_class_changes_nothing_and_other_things_are_refused() -> None:
    connect = partial(natsync.connect, instrumentation=Instrumentation())
    with FakeServer() as server, server.client(connect) as (nc, peer):
        nc.publish("a", b"x")
        assert peer.expect(Pub) == Pub(b"a", b"", b"x")
        nc.subscribe("a", handler=lambda msg: None)
        peer.send(Msg(b"a", peer.subscribed()))

        async def handle(msg: natsync.Msg) -> None: ...

        with pytest.raises(TypeError, match="not an async one"):
            nc.subscribe("a", handler=handle)
    with pytest.raises(TypeError, match="instrumentation must be an Instrumentation, not int"):
        natsync.connect("nats://127.0.0.1:1", instrumentation=1)  # type: ignore[arg-type]  # the point
    with pytest.raises(TypeError, match="instrumentation must be an Instrumentation, not str"):
        natsync.connect("nats://127.0.0.1:1", instrumentation=["a"])  # type: ignore[list-item]  # as above
