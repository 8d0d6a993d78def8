"""What a session amounts to."""

from __future__ import annotations

from dissect.nats.anomalies import Anomaly
from dissect.nats.records import SessionRecord
from dissect.nats.sessions import Session
from dissect.nats.wire import Direction
from natsync.protocol import (
    Connect,
    Err,
    Frame,
    HPub,
    Info,
    Kind,
    Msg,
    Ping,
    Pong,
    Pub,
    RSub,
    RUnsub,
    Sub,
)

from tests.dissector.test_sessions_identity import blank

ORIGINATOR, RESPONDER = Direction


def told(
    *said: tuple[Direction, Frame], kind: Kind = Kind.CLIENT, end: str = "fin"
) -> SessionRecord:
    session = Session()
    for number, (sender, frame) in enumerate(said):
        session.add(sender, number * 1000, [frame])
    record = blank()
    record.end = end
    record.ended_by = "originator"
    session.fill(record, kind)
    return record


def test_counts_messages_and_bytes() -> None:
    record = told(
        (ORIGINATOR, Sub(b"a", b"1")),
        (ORIGINATOR, Pub(b"a", payload=b"hello")),
        (ORIGINATOR, HPub(b"a", headers=b"NATS/1.0\r\n\r\n", payload=b"x")),
        (RESPONDER, Msg(b"a", b"1", payload=b"hello")),
    )
    assert record.frames_originator == {"SUB": 1, "PUB": 1, "HPUB": 1}
    assert record.frames_responder == {"MSG": 1}
    assert (record.messages_originator, record.bytes_originator) == (2, 18)
    assert (record.messages_responder, record.bytes_responder) == (1, 5)
    assert (record.subscriptions, record.requests, record.errors) == (1, 0, None)


def test_the_smallest_round_trip_counts() -> None:
    record = told(
        (ORIGINATOR, Ping()),
        (ORIGINATOR, Ping()),
        (RESPONDER, Pong()),
        (RESPONDER, Pong()),
        (RESPONDER, Pong()),
        (RESPONDER, Ping()),
        (ORIGINATOR, Pong()),
    )
    assert record.rtt_ns == 1000


def test_pings_do_not_pair_across_a_hole() -> None:
    session = Session()
    session.add(ORIGINATOR, 1, [Ping()])
    session.note(RESPONDER, Anomaly.LOST)
    session.add(RESPONDER, 5, [Pong()])
    record = blank()
    session.fill(record, Kind.CLIENT)
    assert (record.rtt_ns, record.anomalies) == (None, {"lost": 1})


def test_an_error_that_ends_the_session() -> None:
    record = told((RESPONDER, Err(b"Authorization Violation")))
    assert (record.end, record.ended_by) == ("error", "responder")
    assert record.errors == ["Authorization Violation"]


def test_an_error_that_does_not() -> None:
    record = told((RESPONDER, Err(b'Permissions Violation for Publish to "a"')))
    assert (record.end, record.ended_by) == ("fin", "originator")
    record = told((RESPONDER, Err(b"Stale Connection")), (RESPONDER, Ping()))
    assert record.end == "fin"
    assert told((RESPONDER, Err(b"Stale Connection")), end="open").end == "open"


def test_errors_do_not_repeat_secrets() -> None:
    record = told(
        (ORIGINATOR, Connect(b'{"auth_token":"hush-hush"}')),
        (RESPONDER, Err(b"no such token: hush-hush")),
    )
    assert record.errors == ["no such token: ***"]


def test_names_do_not_show_passwords() -> None:
    connect = Connect(b'{"name":"nats://bob:hush@h","user":"nats://t0ken@h","lang":"go"}')
    for redact, name, user in (
        (True, "nats://bob:***@h", "nats://***@h"),
        (False, "nats://bob:hush@h", "nats://t0ken@h"),
    ):
        session = Session(redact)
        session.add(Direction.ORIGINATOR, 1, [connect])
        record = blank()
        session.fill(record, Kind.CLIENT)
        assert (record.client_name, record.user, record.client_lang) == (name, user, "go")


def test_interest_is_one_subscription_however_often_its_weight_changes() -> None:
    record = told(
        (ORIGINATOR, RSub(b"a", b"A", b"q", 1)),
        (ORIGINATOR, RSub(b"a", b"A", b"q", 2)),
        (ORIGINATOR, RUnsub(b"a", b"A", b"q")),
        (ORIGINATOR, RSub(b"a", b"A", b"q", 1)),
        kind=Kind.ROUTE,
    )
    assert (record.subscriptions, record.requests) == (2, None)


def test_json_that_cannot_be_read_is_an_anomaly() -> None:
    record = told((RESPONDER, Info(b"{")), (ORIGINATOR, Connect(b"[]")))
    assert record.anomalies == {"bad_json": 2}
