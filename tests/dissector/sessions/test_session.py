"""What a session amounts to."""

from __future__ import annotations

from collections.abc import Collection
from time import process_time

from dissect.nats.engine.session_row import add_session
from dissect.nats.framing.events import Batch, Note
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import RequestRecord, SessionRecord, SubscriptionRecord
from dissect.nats.sessions import EntryQuota, Session
from dissect.nats.types import Chunk, Direction
from natsync.protocol import (
    Connect,
    Err,
    Frame,
    HMsg,
    HPub,
    Info,
    Kind,
    LMsg,
    LSub,
    Msg,
    Ok,
    Ping,
    Pong,
    Pub,
    RMsg,
    RSub,
    RUnsub,
    Sub,
    Unsub,
)

from tests.support.records import session_record

ORIGINATOR, RESPONDER = Direction
SentFrame = tuple[Direction, Frame]


def add_frames(session: Session, *sent: SentFrame) -> None:
    """Every frame in a packet of its own, a microsecond apart."""
    for number, (sender, frame) in enumerate(sent):
        chunk = Chunk(number * 1000, number + 1, "t.pcap", 0, b"")
        session.add(Batch(sender, number * 1000, chunk, chunk, [frame], None))


def row_after(
    *sent: SentFrame, kind: Kind = Kind.CLIENT, end: str = "fin", handshake: bool = True
) -> SessionRecord:
    session = Session(tables={"sessions"})
    add_frames(session, *sent)
    session.finish(None if end == "open" else 99_000, handshake)
    record = session_record()
    record.end = end
    record.ended_by = "originator"
    add_session(record, session, kind)
    return record


def notes_after(*sent: SentFrame, quota: EntryQuota | None = None) -> list[tuple[str, int, str]]:
    """Name, packet and text of what the session finds notes_after."""
    session = Session(quota=quota)
    add_frames(session, *sent)
    session.finish(None, True)
    return [(note.anomaly.value, note.number, note.text) for note in session.notes]


def test_counts_messages_and_bytes() -> None:
    record = row_after(
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
    record = row_after(
        (ORIGINATOR, Ping()),
        (ORIGINATOR, Ping()),
        (RESPONDER, Pong()),
        (RESPONDER, Pong()),
        (RESPONDER, Pong()),
        (RESPONDER, Ping()),
        (ORIGINATOR, Pong()),
    )
    assert record.rtt_ns == 1000


def test_pings_do_not_pair_across_a_gap() -> None:
    session = Session()
    add_frames(session, (ORIGINATOR, Ping()))
    session.note(Note(RESPONDER, 2, 1, "t.pcap", Anomaly.LOST, 0, 1))
    add_frames(session, (RESPONDER, Pong()))
    session.finish(None, True)
    record = session_record()
    add_session(record, session, Kind.CLIENT)
    assert (record.rtt_ns, record.anomalies) == (None, {"lost": 1})


def test_an_error_that_ends_the_session() -> None:
    record = row_after((RESPONDER, Err(b"Authorization Violation")))
    assert (record.end, record.ended_by) == ("error", "responder")
    assert record.errors == ["Authorization Violation"]


def test_an_error_that_does_not() -> None:
    record = row_after((RESPONDER, Err(b'Permissions Violation for Publish to "a"')))
    assert (record.end, record.ended_by) == ("fin", "originator")
    record = row_after((RESPONDER, Err(b"Stale Connection")), (RESPONDER, Ping()))
    assert record.end == "fin"
    assert row_after((RESPONDER, Err(b"Stale Connection")), end="open").end == "open"


def test_errors_do_not_repeat_secrets() -> None:
    record = row_after(
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
        session = Session(redact=redact)
        add_frames(session, (ORIGINATOR, connect))
        record = session_record()
        add_session(record, session, Kind.CLIENT)
        assert (record.client_name, record.user, record.client_lang) == (name, user, "go")


def test_interest_is_one_subscription_however_often_its_weight_changes() -> None:
    record = row_after(
        (ORIGINATOR, RSub(b"a", b"A", b"q", 1)),
        (ORIGINATOR, RSub(b"a", b"A", b"q", 2)),
        (ORIGINATOR, RUnsub(b"a", b"A", b"q")),
        (ORIGINATOR, RSub(b"a", b"A", b"q", 1)),
        kind=Kind.ROUTE,
    )
    assert (record.subscriptions, record.requests) == (2, None)


def test_json_that_cannot_be_read_is_an_anomaly() -> None:
    record = row_after((RESPONDER, Info(b"{")), (ORIGINATOR, Connect(b"[]")))
    assert record.anomalies == {"bad_json": 2}


def test_which_errors_end_a_session_depends_on_its_kind() -> None:
    sent = (RESPONDER, Err(b'Permissions Violation for Subscription to "a"'))
    assert row_after(sent, kind=Kind.LEAFNODE).end == "error"
    assert (
        row_after((ORIGINATOR, Err(b"Invalid Subscription")), kind=Kind.ROUTE).ended_by
        == "originator"
    )
    assert row_after((ORIGINATOR, Err(b"Invalid Subscription")), kind=Kind.LEAFNODE).end == "fin"


def test_pings_that_nobody_answers() -> None:
    assert row_after((RESPONDER, Ping()), (RESPONDER, Ping())).unanswered_pings == 2
    assert row_after((RESPONDER, Ping()), (ORIGINATOR, Pong())).unanswered_pings is None


def rows(*sent: SentFrame, tables: Collection[str]) -> list[object]:
    session = Session("s", tables)
    add_frames(session, *sent)
    session.finish(99_000, True)
    return list(session.rows)


CONVERSATION: tuple[SentFrame, ...] = (
    (ORIGINATOR, Sub(b"_INBOX.n.*", b"1")),
    (ORIGINATOR, Pub(b"svc", b"_INBOX.n.1", b"ask")),
    (RESPONDER, HMsg(b"_INBOX.n.1", b"1", b"", b"NATS/1.0\r\n\r\n", b"x")),
    (ORIGINATOR, Unsub(b"1")),
)


def test_rows_are_made_only_where_they_are_wanted() -> None:
    assert not rows(*CONVERSATION, tables={"sessions", "frames"})
    (sub,) = rows(*CONVERSATION, tables={"subscriptions"})
    assert isinstance(sub, SubscriptionRecord)
    assert (sub.subject, sub.opened_ns, sub.closed_ns, sub.close) == (
        "_INBOX.n.*",
        0,
        3000,
        "unsub",
    )
    assert (sub.delivered, sub.delivered_bytes, sub.sender) == (1, 13, "originator")
    (request,) = rows(*CONVERSATION, tables={"requests"})
    assert isinstance(request, RequestRecord)
    assert (request.subject, request.latency_ns) == ("svc", 1000)
    record = row_after(*CONVERSATION)
    assert (record.subscriptions, record.requests, record.replies) == (1, 1, 1)


def test_a_maximum_and_a_refusal() -> None:
    found = rows(
        (ORIGINATOR, Sub(b"a", b"1")),
        (ORIGINATOR, Unsub(b"1", 1)),
        (RESPONDER, Msg(b"a", b"1")),
        (ORIGINATOR, Sub(b"b", b"2")),
        (RESPONDER, Err(b'Permissions Violation for Subscription to "b"')),
        tables={"subscriptions"},
    )
    assert [row.close for row in found if isinstance(row, SubscriptionRecord)] == [
        "auto",
        "refused",
    ]


def test_messages_between_servers_count_for_the_interest_of_the_other_side() -> None:
    sent: tuple[SentFrame, ...] = (
        (RESPONDER, LSub(b"a.*", b"A", b"leaf")),
        (ORIGINATOR, RSub(b"a.*", b"A")),
        (ORIGINATOR, RMsg(b"a.b", b"A", payload=b"x")),
        (ORIGINATOR, LMsg(b"a.c", b"A", b"leaf", headers=b"no block", payload=b"y")),
    )
    found = [row for row in rows(*sent, tables={"subscriptions"})]
    assert [
        (row.sender, row.origin, row.delivered, row.delivered_bytes)
        for row in found
        if isinstance(row, SubscriptionRecord)
    ] == [("originator", None, 0, 0), ("responder", "leaf", 2, 10)]
    assert row_after(*sent, kind=Kind.ROUTE).anomalies == {"bad_headers": 1}


def test_more_than_the_server_takes() -> None:
    sent: tuple[SentFrame, ...] = (
        (ORIGINATOR, Pub(b"a", payload=b"12345")),
        (RESPONDER, Info(b'{"max_payload":4}')),
        (ORIGINATOR, Pub(b"a", payload=b"1234")),
        (ORIGINATOR, Pub(b"a", payload=b"12345")),
        (ORIGINATOR, HPub(b"a", headers=b"NATS/1.0\r\n\r\n", payload=b"")),
        (RESPONDER, Info(b'{"max_payload":100}')),
        (ORIGINATOR, Pub(b"a", payload=b"12345")),
    )
    assert notes_after(*sent) == [
        ("max_payload_exceeded", 4, "5 bytes, where the server takes 4"),
        ("max_payload_exceeded", 5, "12 bytes, 12 of them headers, where the server takes 4"),
    ]


def test_subjects_that_are_none() -> None:
    sent: tuple[SentFrame, ...] = (
        (ORIGINATOR, Sub(b"a.>.b", b"1")),
        (ORIGINATOR, Sub(b"a..b", b"2")),
        (ORIGINATOR, Sub(b"a.*.>", b"3")),
        (ORIGINATOR, Pub(b"a.*")),
        (ORIGINATOR, Pub(b"a.")),
        (ORIGINATOR, Pub(b"a*.b>")),
        (ORIGINATOR, Pub(b"$JS.API.CONSUMER.CREATE.S.c.orders.>", b"r")),
    )
    assert [(name, packet) for name, packet, _ in notes_after(*sent)] == [
        ("invalid_subject", packet) for packet in (1, 2, 4, 5)
    ]


def test_a_sid_that_is_in_use() -> None:
    sent: tuple[SentFrame, ...] = ((ORIGINATOR, Sub(b"a", b"1")), (ORIGINATOR, Sub(b"b", b"1")))
    assert notes_after(*sent) == [("sid_in_use", 2, "the subscription that has it goes on")]


def test_more_answers_than_questions() -> None:
    quiet = (ORIGINATOR, Connect(b'{"verbose":false}'))
    assert notes_after(quiet, (ORIGINATOR, Pub(b"a")), (RESPONDER, Ok())) == [
        ("unasked_ok", 3, "1 more than operations")
    ]
    verbose = (ORIGINATOR, Connect(b"{}"))
    assert not notes_after(verbose, (RESPONDER, Ok()), (ORIGINATOR, Pub(b"a")), (RESPONDER, Ok()))
    assert notes_after(quiet, (RESPONDER, Pong())) == [("unasked_pong", 2, "1 more than PINGs")]
    assert row_after(quiet, (RESPONDER, Pong())).anomalies == {"unasked_pong": 1}
    assert row_after(quiet, (RESPONDER, Pong()), handshake=False).anomalies is None


def test_a_capture_of_one_direction_says_nothing_about_answers() -> None:
    """As of a tap or a mirror port that has one direction of the cable: its other side asked elsewhere."""
    assert not notes_after((RESPONDER, Info(b"{}")), (RESPONDER, Ok()), (RESPONDER, Pong()))
    assert not notes_after((ORIGINATOR, Connect(b"{}")), (ORIGINATOR, Pong()))


def test_what_is_given_up_is_reported() -> None:
    subs: list[SentFrame] = [(ORIGINATOR, Sub(b"a", b"%d" % number)) for number in range(3)]
    assert notes_after(*subs, quota=EntryQuota(2)) == [
        ("forgotten", 3, "1 subscriptions given up: there were too many")
    ]


def test_the_place_of_what_is_odd_is_that_of_its_frame() -> None:
    session = Session()
    first, last = (Chunk(ts_ns, ts_ns, f"{ts_ns}.pcap", 0, b"") for ts_ns in (1, 2))
    notes_after = [Pub(b"a.*").placed(10, 20), Pub(b"b.*").placed(30, 21)]
    session.add(Batch(ORIGINATOR, 2, first, last, [*notes_after], None))
    assert session.notes == [
        Note(
            ORIGINATOR,
            2,
            place.number,
            place.capture,
            Anomaly.INVALID_SUBJECT,
            frame.offset,
            frame.total_bytes,
            "published to a wildcard or an empty token",
        )
        for place, frame in zip((first, last), notes_after)
    ]


def test_advisories_that_report_trouble() -> None:
    subject = b"$JS.EVENT.ADVISORY.STREAM.QUORUM_LOST.S"
    assert row_after((RESPONDER, Msg(subject, b"1"))).anomalies == {"jetstream_trouble": 1}
    assert row_after((RESPONDER, Msg(b"$JS.EVENT.ADVISORY.API", b"1"))).anomalies is None
    between = (ORIGINATOR, RMsg(subject, b"A")), (ORIGINATOR, LMsg(subject, b"A", b"leaf"))
    assert row_after(*between, kind=Kind.ROUTE).anomalies == {"jetstream_trouble": 2}


def test_addresses_do_not_show_passwords() -> None:
    info = Info(b'{"server_id":"S","connect_urls":["bob:hush@h:1","t0ken@h","h:2"]}')
    assert row_after((RESPONDER, info)).connect_urls == ["bob:***@h:1", "***@h", "h:2"]


def test_many_secrets_and_refusals_cost_a_constant_time_each() -> None:
    def seconds(count: int) -> float:
        frames: list[SentFrame] = []
        for number in range(count):
            frames.append((ORIGINATOR, Connect(b'{"auth_token":"secret-%d"}' % number)))
            frames.append((RESPONDER, Err(b"Invalid Subject")))
        subs = [(ORIGINATOR, Sub(b"a." * 1000 + b"%d" % sid, b"%d" % sid)) for sid in range(256)]
        began = process_time()
        record = row_after(*subs, *frames)
        assert record.errors and set(record.errors) == {"***"}
        return process_time() - began

    few, many = min(seconds(500) for _ in range(3)), seconds(4000)
    assert many < 30 * few  # eight times as many: 64 times the time if each looked at all before it
