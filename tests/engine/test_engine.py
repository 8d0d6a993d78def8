"""The conversation as scripts: fed this at that time, expect these events and these bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsync._engine.engine import (
    KEEP_ALIVE,
    Delivery,
    Engine,
    EngineEvent,
    InfoChanged,
    Lost,
    Opened,
    Phase,
    Ponged,
    Reported,
    Secure,
    read_error,
)
from natsync.errors import (
    AuthorizationError,
    PermissionsViolationError,
    SecureConnWantedError,
    ServerError,
    StaleConnectionError,
)
from natsync.protocol import ConnectOptions, HMsg, Msg, ProtocolError, ServerInfo

INFO = b'INFO {"server_id":"N","max_payload":100,"headers":true}\r\n'
CONNECT = b'CONNECT {"verbose":false,"pedantic":true,"name":"me"}\r\nPING\r\n'
NEVER = float("inf")


def new_engine() -> Engine:
    connect = ConnectOptions(verbose=False, name="me")
    return Engine("h:1", lambda info: connect, ping_interval=10.0, max_pings_out=2)


def open_engine(now: float = 0.0) -> Engine:
    engine = new_engine()
    engine.receive(INFO + b"PONG\r\n", now)
    sent(engine)
    return engine


def sent(engine: Engine) -> bytes:
    """What it has sent since the last call."""
    out = b"".join(engine.out)
    engine.out.clear()
    engine.pongs = 0
    return out


def receive(engine: Engine, data: bytes, now: float) -> list[EngineEvent]:
    """Receives `data` and handles the events."""
    events = engine.receive(data, now)
    del engine.pings[: engine.answered]
    engine.answered = 0
    return events


def lost(events: list[EngineEvent]) -> Exception:
    event = events[-1]
    assert isinstance(event, Lost)
    return event.error


def test_the_handshake_sends_connect_and_waits_for_a_pong() -> None:
    engine = new_engine()
    assert (sent(engine), engine.phase) == (b"", Phase.GREETING)
    assert engine.receive(INFO, 0.0) == []
    assert (sent(engine), engine.phase) == (CONNECT, Phase.JOINING)
    (event,) = receive(engine, b"PONG\r\n", 1.0)
    assert isinstance(event, Opened)
    assert (event.info.server_id, event.info.max_payload) == ("N", 100)
    assert (engine.phase, engine.deadline, sent(engine)) == (Phase.OPEN, 11.0, b"")


def test_ok_ping_and_a_second_info_before_the_pong() -> None:
    engine = new_engine()
    engine.receive(INFO, 0.0)
    sent(engine)
    second = INFO.replace(b"100", b"200")
    (event,) = engine.receive(b"+OK\r\nPING\r\n" + second + b"PONG\r\n", 0.0)
    assert isinstance(event, Opened) and event.info.max_payload == 200
    assert sent(engine) == b"PONG\r\n"


def test_an_info_right_after_the_first_pong() -> None:
    engine = new_engine()
    events = engine.receive(INFO + b"PONG\r\n" + INFO, 0.0)
    assert [type(event) for event in events] == [Opened, InfoChanged]


def test_what_connect_says_may_depend_on_the_info() -> None:
    seen: list[ServerInfo] = []

    def connect(info: ServerInfo) -> ConnectOptions:
        seen.append(info)
        return ConnectOptions(user="u", password="p")

    engine = Engine("h:1", connect, 10.0, 2)
    engine.receive(INFO, 0.0)
    assert seen[0].server_id == "N"
    assert json.loads(sent(engine).split(b" ", 1)[1].split(b"\r\n")[0])["pass"] == "p"


@pytest.mark.parametrize("cut", range(len(INFO + b"PONG\r\n") + 1))
def test_bytes_may_come_in_any_pieces(cut: int) -> None:
    engine, wire = new_engine(), INFO + b"PONG\r\n"
    events = engine.receive(wire[:cut], 0.0) + engine.receive(wire[cut:], 0.0)
    assert [type(event) for event in events] == [Opened]
    assert sent(engine) == CONNECT


def test_tls_begins_after_info() -> None:
    engine = new_engine()
    (event,) = engine.receive(b'INFO {"tls_required":true}\r\n', 0.0)
    assert isinstance(event, Secure)
    assert (sent(engine), engine.phase) == (b"", Phase.SECURING)
    engine.secured(event.info)
    assert (sent(engine), engine.phase) == (CONNECT, Phase.JOINING)


def test_bytes_between_info_and_tls_are_nobodys() -> None:
    engine = new_engine()
    events = engine.receive(b'INFO {"tls_required":true}\r\nPING\r\n', 0.0)
    assert isinstance(lost(events), ProtocolError)


def test_a_server_that_refuses_before_tls_says_why() -> None:
    engine = new_engine()
    refusal = b"-ERR 'maximum connections exceeded'\r\n"
    events = engine.receive(b'INFO {"tls_required":true}\r\n' + refusal, 0.0)
    assert "maximum connections" in str(lost(events))


def test_tls_is_wanted_and_not_there() -> None:
    connect = ConnectOptions(name="me")
    engine = Engine("h:1", lambda info: connect, 10.0, 2, tls=True)
    assert isinstance(lost(engine.receive(INFO, 0.0)), SecureConnWantedError)
    engine = Engine("h:1", lambda info: connect, 10.0, 2, tls=True, secured=True)
    assert engine.receive(INFO, 0.0) == [] and engine.phase is Phase.JOINING


def test_refused_in_the_handshake() -> None:
    engine = new_engine()
    events = engine.receive(INFO + b"-ERR 'Authorization Violation'\r\n", 0.0)
    assert isinstance(lost(events), AuthorizationError)
    engine = new_engine()
    events = engine.receive(b"-ERR 'maximum connections exceeded'\r\n", 0.0)
    assert isinstance(lost(events), ServerError)


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\x16\x03\x01\x00",
        b"PONG\r\n",
        b"INFO nonsense\r\n",
        b"INFO {\r\n",
        b"SUB a 1\r\n",
        INFO + b"PONG\r\nPONG\r\n",
        INFO + b"PONG\r\nMSG a 1 1\r\nxxx\r\n",
    ],
)
def test_a_server_that_breaks_the_protocol(wire: bytes) -> None:
    engine = new_engine()
    assert isinstance(lost(engine.receive(wire, 0.0)), ProtocolError)
    assert (engine.phase, engine.deadline) == (Phase.OVER, NEVER)


def test_messages_before_the_damage_are_delivered() -> None:
    first, last = open_engine().receive(b"MSG a 1 1\r\nx\r\nGARBAGE\r\n", 0.0)
    assert first == Delivery(b"1", [Msg(b"a", b"1", b"", b"x")])
    assert isinstance(last, Lost)


def test_messages_come_in_runs_of_one_subscription() -> None:
    wire = (
        b"MSG a 1 1\r\nx\r\nMSG b 1 1\r\ny\r\nMSG a 2 0\r\n\r\nPING\r\n"
        b"MSG a 2 0\r\n\r\nHMSG a 2 12 13\r\nNATS/1.0\r\n\r\nz\r\n"
    )
    engine = open_engine()
    assert engine.receive(wire, 0.0) == [
        Delivery(b"1", [Msg(b"a", b"1", b"", b"x"), Msg(b"b", b"1", b"", b"y")]),
        Delivery(b"2", [Msg(b"a", b"2")]),
        Delivery(b"2", [Msg(b"a", b"2"), HMsg(b"a", b"2", b"", b"NATS/1.0\r\n\r\n", b"z")]),
    ]
    assert sent(engine) == b"PONG\r\n"


def test_pongs_answer_pings_in_order_keep_alive_included() -> None:
    engine = open_engine()
    engine.ping("first")
    assert engine.tick(10.0) == []
    engine.ping("second")
    assert sent(engine) == b"PING\r\n" * 3
    assert receive(engine, b"PONG\r\n", 10.1) == [Ponged("first")]
    assert receive(engine, b"PONG\r\n", 10.2) == []
    assert receive(engine, b"PONG\r\n", 10.3) == [Ponged("second")]


def test_a_pong_comes_after_the_messages_before_it() -> None:
    engine = open_engine()
    engine.ping("token")
    events = engine.receive(b"MSG a 1 0\r\n\r\nPONG\r\n", 0.0)
    assert [type(event) for event in events] == [Delivery, Ponged]


def test_keep_alive_and_stale() -> None:
    engine = open_engine(now=5.0)
    assert (engine.deadline, engine.tick(14.9), sent(engine)) == (15.0, [], b"")
    assert (engine.tick(15.0), sent(engine), engine.deadline) == ([], b"PING\r\n", 25.0)
    assert (engine.tick(25.0), sent(engine)) == ([], b"PING\r\n")
    assert isinstance(lost(engine.tick(35.0)), StaleConnectionError)
    assert (engine.tick(99.0), sent(engine)) == ([], b"")


def test_any_pong_shows_that_the_server_lives() -> None:
    engine = open_engine()
    for now in range(10, 200, 10):
        assert engine.tick(float(now)) == []
        assert receive(engine, b"PONG\r\n", now + 1.0) == []


def test_what_a_pong_confirms() -> None:
    engine = open_engine()
    engine.sent = 3
    engine.ping("a")
    engine.sent = 5
    engine.ping("b")
    assert engine.confirmed == 0
    receive(engine, b"PONG\r\n", 0.0)
    assert engine.confirmed == 3
    receive(engine, b"PONG\r\n", 0.0)
    assert engine.confirmed == 5


def test_pings_without_end_and_nobody_who_takes_the_pongs() -> None:
    engine = open_engine()
    assert isinstance(lost(engine.receive(b"PING\r\n" * 20_000, 0.0)), StaleConnectionError)


def test_errors_that_leave_the_connection_open() -> None:
    engine = open_engine()
    (event,) = engine.receive(b"-ERR 'Permissions Violation for Publish to \"a.b\"'\r\n", 0.0)
    assert isinstance(event, Reported) and isinstance(event.error, PermissionsViolationError)
    assert (engine.reason, engine.phase) == (None, Phase.OPEN)


def test_an_error_that_announces_the_end_is_the_reason() -> None:
    engine = open_engine()
    (event,) = engine.receive(b"-ERR 'User Authentication Expired'\r\n", 0.0)
    assert isinstance(event, Reported)
    assert engine.reason is event.error and isinstance(event.error, AuthorizationError)


def test_abandoned_pings_are_named_but_not_keep_alives() -> None:
    engine = open_engine()
    engine.ping("a")
    engine.tick(10.0)
    engine.ping("b")
    assert engine.abandon() == ["a", "b"]
    assert (engine.abandon(), engine.phase, engine.deadline) == ([], Phase.OVER, NEVER)
    assert receive(engine, b"PONG\r\n", 11.0) == []


@pytest.mark.parametrize(
    ("text", "operation", "subject", "queue"),
    [
        (b'Permissions Violation for Publish to "a.b"', "publish", "a.b", ""),
        (b'permissions violation for subscription to "a.>"', "subscription", "a.>", ""),
        (
            b'Permissions Violation for Subscription to "a" using queue "q"',
            "subscription",
            "a",
            "q",
        ),
        (b'Permissions Violation for Subscription to "a" (sid "7")', "subscription", "a", ""),
        (
            b'Permissions Violation for Subscription to "a.b", too many tokens',
            "subscription",
            "a.b",
            "",
        ),
        (b'Permissions Violation for Publish with Reply of "_R_.x"', "publish", "_R_.x", ""),
        (rb'Permissions Violation for Publish to "n\"o\\\t\x41\u00e4"', "publish", 'n"o\\\tAä', ""),
        (rb'Permissions Violation for Publish to "\xff"', "publish", "\udcff", ""),
        ('Permissions Violation for Publish to "ä"'.encode(), "publish", "ä", ""),
    ],
)
def test_violations_name_what_they_concern(
    text: bytes, operation: str, subject: str, queue: str
) -> None:
    error, closes = read_error(text, "a:4222")
    assert isinstance(error, PermissionsViolationError)
    assert (error.operation, error.subject, error.queue) == (operation, subject, queue)
    assert not closes


@pytest.mark.parametrize(
    ("text", "kind", "closes"),
    [
        (b"Authorization Violation", AuthorizationError, True),
        (b"user authentication revoked", AuthorizationError, True),
        (b"Account Authentication Expired", AuthorizationError, True),
        (b"Stale Connection", StaleConnectionError, True),
        (b"Invalid Subject", ServerError, False),
        (b"maximum subscriptions exceeded", ServerError, False),
        (b"Permissions Violation of a new kind", ServerError, False),
        (b"Unknown Protocol Operation", ServerError, True),
        (b"\xff", ServerError, True),
    ],
)
def test_what_an_error_means(text: bytes, kind: type, closes: bool) -> None:
    error, closing = read_error(text, "a:4222")
    assert (type(error), closing) == (kind, closes)


@given(st.lists(st.binary(max_size=40), max_size=6), st.booleans())
def test_any_bytes_give_events_and_nothing_else(chunks: list[bytes], greeted: bool) -> None:
    engine = open_engine() if greeted else new_engine()
    for chunk in chunks:
        engine.receive(chunk, 0.0)


@given(st.binary(max_size=60))
def test_any_error_text_is_understood(text: bytes) -> None:
    for whole in (text, b'Permissions Violation for Publish to "%b"' % text):
        error, _ = read_error(whole, "a:4222")
        assert isinstance(str(error), str)


def test_a_pong_confirms_what_was_sent_before_its_ping() -> None:
    engine = open_engine()
    engine.sent += 1000
    engine.ping(KEEP_ALIVE)
    assert sent(engine) == b"PING\r\n"
    engine.sent += 5
    assert receive(engine, b"PONG\r\n", 1.0) == [] and engine.confirmed == 1000


def test_what_was_cut_short_is_received_again_from_the_beginning() -> None:
    engine = open_engine()
    at, engine.is_changing = engine.offset, False
    (before,) = engine.receive(b"MSG a 1 2\r\nhi\r\nMSG a 1 9\r\nhalf", 1.0)
    assert not engine.is_changing and engine.offset != at
    engine.rewind(at)
    assert engine.offset == at
    assert engine.receive(b"MSG a 1 2\r\nhi\r\n", 1.0) == [before]
    engine.receive(b"PING\r\n", 1.0)
    assert engine.is_changing
