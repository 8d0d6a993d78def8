"""Sums of plain frames do to a session what the frames do, or are refused."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.framing.events import Batch
from dissect.nats.sessions import EntryQuota, Session, SessionDelta
from dissect.nats.sessions.delta import is_plain, is_publishable
from dissect.nats.types import Chunk, Direction
from natsync.protocol import Context, Decoder, Frame, Kind, Role

from tests.support.graphs import difference

_TABLES = ["subscriptions", "requests"]
_ORIGINATOR, _RESPONDER = Direction.ORIGINATOR, Direction.RESPONDER


def _frames(wire: bytes, way: Direction, kind: Kind = Kind.CLIENT) -> list[Frame]:
    role = Role.CLIENT if way is _ORIGINATOR else Role.SERVER
    decoder = Decoder(Context(role, kind).sender, kind)
    decoder.feed(wire)
    frames: list[Frame] = []
    while some := decoder.read():
        frames += some
    return frames


def _batch(wire: bytes, way: Direction, number: int = 1, kind: Kind = Kind.CLIENT) -> Batch:
    chunk = Chunk(number, number, "a.pcap", 0, b"")
    return Batch(way, number, chunk, chunk, _frames(wire, way, kind), None)


def _session(before: Sequence[tuple[Direction, bytes]], quota: EntryQuota | None = None) -> Session:
    session = Session("s", _TABLES, quota=quota)
    for way, wire in before:
        session.add(_batch(wire, way))
    session.rows.clear()
    session.notes.clear()
    return session


def _difference(one: Session, other: Session) -> str:
    again = [pickle.loads(pickle.dumps(session)) for session in (one, other)]
    return difference(*again)


_SUBSCRIBED = [(_ORIGINATOR, b"SUB a 1\r\nSUB b 2\r\nUNSUB 2 4\r\n"), (_RESPONDER, b"-ERR 'x'\r\n")]
_PLAIN = [
    (_ORIGINATOR, b"PUB a 3\r\nabc\r\n"),
    (_ORIGINATOR, b"HPUB a 12 15\r\nNATS/1.0\r\n\r\nabc\r\n"),
    (_RESPONDER, b"MSG a 1 3\r\nabc\r\n"),
    (_RESPONDER, b"MSG z 9 2\r\nab\r\n"),
    (_RESPONDER, b"MSG y 8 x 2\r\nab\r\nMSG z 9 0\r\n\r\n"),
    (_RESPONDER, b"HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n\r\n"),
    (_RESPONDER, b"+OK\r\n"),
]


@given(st.lists(st.sampled_from(_PLAIN), min_size=1, max_size=12))
@settings(deadline=None)
def test_a_sum_is_worth_its_frames(sent: list[tuple[Direction, bytes]]) -> None:
    one, other = _session(_SUBSCRIBED), _session(_SUBSCRIBED)
    sums: dict[Direction, SessionDelta] = {}
    for number, (way, wire) in enumerate(sent, 2):
        batch = _batch(wire, way, number)
        one.add(batch)
        assert is_plain(batch, ())
        sums.setdefault(way, SessionDelta()).add(batch)
    for way, amount in sums.items():
        assert other.add_delta(way, amount)
    assert not _difference(one, other), "is it in SessionDelta, and applied by Session.add_delta?"


def test_what_servers_carry() -> None:
    interest = b"RS+ $G a.*\r\nRS+ $G a.b q 2\r\nRS+ $G >\r\n"
    wires = [b"RMSG $G a.b 3\r\nabc\r\n", b"RMSG $G a.b | q 2\r\nab\r\n", b"RMSG A a.b 1\r\na\r\n"]
    wires.append(b"HMSG $G a.b 12 15\r\nNATS/1.0\r\n\r\nabc\r\n")
    one, other = Session("s", _TABLES), Session("s", _TABLES)
    for session in (one, other):
        session.add(_batch(interest, _RESPONDER, 1, Kind.ROUTE))
    amount = SessionDelta()
    for number, wire in enumerate(wires * 3, 2):
        batch = _batch(wire, _ORIGINATOR, number, Kind.ROUTE)
        one.add(batch)
        assert is_plain(batch, ())
        amount.add(batch)
    assert other.add_delta(_ORIGINATOR, amount)
    assert not _difference(one, other)


@pytest.mark.parametrize(
    ("way", "wire"),
    [
        (_ORIGINATOR, b"PUB a r 1\r\nx\r\n"),
        (_ORIGINATOR, b"PUB a.* 1\r\nx\r\n"),
        (_ORIGINATOR, b"HPUB a 4 4\r\nNATS\r\n"),
        (_ORIGINATOR, b"SUB a 1\r\n"),
        (_ORIGINATOR, b"PING\r\n"),
        (_RESPONDER, b"MSG _INBOX.1 1 1\r\nx\r\n"),
        (_RESPONDER, b"MSG asked 1 1\r\nx\r\n"),
        (_RESPONDER, b"MSG a 1 $JS.ACK.s.c 1\r\nx\r\n"),
        (_RESPONDER, b"HMSG a 1 4 4\r\nNATS\r\n"),
        (_RESPONDER, b"MSG $JS.EVENT.ADVISORY.API.LIMIT_REACHED 1 0\r\n\r\n"),
        (_RESPONDER, b"-ERR 'x'\r\n"),
    ],
)
def test_one_frame_that_is_not_plain_decides_for_its_batch(way: Direction, wire: bytes) -> None:
    plain = b"PUB a 1\r\nx\r\n" if way is _ORIGINATOR else b"MSG a 1 1\r\nx\r\n"
    assert is_plain(_batch(plain, way), {b"asked"})
    assert not is_plain(_batch(plain + wire, way), {b"asked"})


def _sum(wire: bytes, way: Direction) -> SessionDelta:
    amount, batch = SessionDelta(), _batch(wire, way, 2)
    assert is_plain(batch, ())
    amount.add(batch)
    return amount


@pytest.mark.parametrize(
    ("before", "way", "wire", "expected"),
    [
        (b'INFO {"server_id":"A","max_payload":3}\r\n', _ORIGINATOR, b"PUB a 3\r\nabc\r\n", True),
        (b'INFO {"server_id":"A","max_payload":2}\r\n', _ORIGINATOR, b"PUB a 3\r\nabc\r\n", False),
        (b"PUB a r 0\r\n\r\n", _RESPONDER, b"MSG q 1 0\r\n\r\n", True),
        (b"PUB a r 0\r\n\r\n", _RESPONDER, b"MSG q 1 0\r\n\r\nMSG r 1 0\r\n\r\n", False),
        (b"SUB a 1\r\nUNSUB 1 3\r\n", _RESPONDER, b"MSG a 1 0\r\n\r\n" * 2, True),
        (b"SUB a 1\r\nUNSUB 1 3\r\n", _RESPONDER, b"MSG a 1 0\r\n\r\n" * 3, False),
        (b"SUB a 1\r\nUNSUB 1 3\r\n", _RESPONDER, b"MSG a 1 0\r\n\r\n" * 4, False),
    ],
)
def test_a_sum_whose_order_matters_changes_nothing(
    before: bytes, way: Direction, wire: bytes, expected: bool
) -> None:
    sender = _RESPONDER if before.startswith(b"INFO") else _ORIGINATOR
    one, other = _session([(sender, before)]), _session([(sender, before)])
    assert one.add_delta(way, _sum(wire, way)) is expected
    assert bool(_difference(one, other)) is expected


def test_a_reply_to_an_older_request() -> None:
    session = _session([])
    for number in range(4100):
        session.add(_batch(b"PUB a r.%d 0\r\n\r\n" % number, _ORIGINATOR))
    assert not session.add_delta(_RESPONDER, _sum(b"MSG r.4000 1 0\r\n\r\n", _RESPONDER))


def test_sids_that_are_unknown_need_room() -> None:
    wire = b"MSG a 1 0\r\n\r\nMSG a 2 0\r\n\r\n"
    assert not _session([], EntryQuota(1)).add_delta(_RESPONDER, _sum(wire, _RESPONDER))
    assert _session([], EntryQuota(2)).add_delta(_RESPONDER, _sum(wire, _RESPONDER))


def test_subjects_that_are_sound() -> None:
    assert is_publishable(b"a.b") and is_publishable(b"$JS.API.*")
    assert not is_publishable(b"a.*") and not is_publishable(b"a..b")
