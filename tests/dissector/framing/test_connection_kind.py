"""How well the kind is known: inferred, confirmed, complete; and what that does to the streams."""

from __future__ import annotations

import pytest

from dissect.nats.framing.connection_kind import ConnectionKind
from dissect.nats.framing.events import Event
from dissect.nats.framing.frame_stream import FrameStream, Proven
from dissect.nats.framing.resync.chain import Chain
from dissect.nats.framing.resync.resynchronizer import Quota
from dissect.nats.types import Chunk, Direction
from natsync.protocol import Connect, Context, Info, Kind, Role

ORIGINATOR, RESPONDER = Direction
CLIENT_INFO = Info(b'{"server_id":"NS","client_id":5}')
LEAFNODE_INFO = Info(b'{"server_id":"NS","client_id":5,"info_on_connect":true}')
ROUTE_INFO = Info(b'{"server_id":"NS","nonce":"x","lnoc":true,"lnocu":true}')


def made(midstream: bool = False, hint: Kind | None = None) -> tuple[ConnectionKind, FrameStream]:
    streams = [FrameStream(way, Quota(), True) for way in Direction]
    for stream in streams:
        stream.from_start = True
    return ConnectionKind(streams, midstream, hint), streams[1]


def test_the_kind_is_unknown_at_first() -> None:
    kind, stream = made()
    assert kind.kind is None and not kind.is_confirmed
    assert {context.sender for context in kind.contexts(stream)} == {Role.SERVER}


def test_midstream_either_side_may_be_the_server() -> None:
    kind, stream = made(midstream=True)
    assert {context.sender for context in kind.contexts(stream)} == {Role.CLIENT, Role.SERVER}


def test_operations_infer_what_info_then_confirms() -> None:
    kind, stream = made()
    chain = Chain(0, (Context(Role.SERVER, Kind.CLIENT),))
    chain.ops.add("MSG")
    assert not kind.add_proof(stream, chain)
    assert kind.kind is Kind.CLIENT and not kind.is_confirmed
    assert kind.adds_no_evidence(stream, {"MSG"})
    assert not kind.adds_no_evidence(stream, {"HMSG"})
    assert not kind.learn(stream, CLIENT_INFO)
    assert kind.is_confirmed and kind.adds_no_evidence(stream, {"HMSG"})
    assert kind.contexts(stream) == (stream.context,)


def test_connect_counts_more_than_info() -> None:
    kind, stream = made()
    kind.learn(stream, ROUTE_INFO)
    assert kind.kind is Kind.ROUTE
    kind.learn(stream, Connect(b'{"lang":"go","version":"1"}'))
    assert kind.kind is Kind.CLIENT and kind.saw_connect


@pytest.mark.parametrize("path, kind", [("/leafnode", Kind.LEAFNODE), ("/a", Kind.CLIENT)])
def test_the_path_of_a_websocket_tells_a_leafnode(path: str, kind: Kind) -> None:
    """Old servers without advertised URLs describe leafnodes as they describe clients."""
    for frame in (CLIENT_INFO, Connect(b'{"verbose":false}')):
        known, stream = made()
        known.learn(stream, frame, path)
        assert known.kind is (kind if frame is CLIENT_INFO or path == "/leafnode" else None)


def test_a_leafnode_by_path_and_info_is_one_whatever_its_connect_says() -> None:
    connect = Connect(b'{"lang":"go","version":"1"}')
    for info, path, expected in (
        (LEAFNODE_INFO, "/shop/leafnode", Kind.LEAFNODE),
        (LEAFNODE_INFO, "", Kind.CLIENT),  # a client at the port of leafnodes
        (CLIENT_INFO, "/leafnode", Kind.CLIENT),  # the path leads to a server by way of a proxy
    ):
        kind, stream = made()
        kind.learn(stream, info, path)
        kind.learn(stream, connect, path)
        assert kind.kind is expected


def test_an_info_from_the_originator_of_a_client_connection_swaps_roles() -> None:
    streams = [FrameStream(way, Quota(), True) for way in Direction]
    streams[0].from_start = True
    assert ConnectionKind(streams, True, None).learn(streams[0], CLIENT_INFO)


def test_a_hint_is_not_corrected() -> None:
    kind, stream = made(hint=Kind.LEAFNODE)
    before = kind.changes
    kind.learn(stream, CLIENT_INFO)
    assert kind.kind is Kind.LEAFNODE and kind.changes == before


def test_a_line_that_does_not_fit_is_no_error_while_one_server_of_a_route_is_unknown() -> None:
    """A route that is dedicated to an account has no accounts in its lines, and the INFO that says so may
    be in the direction that was not captured."""
    kind, stream = made()
    kind.learn(stream, ROUTE_INFO)
    stream.expect(kind.contexts(stream), True, False)
    out: list[Event] = []
    interest = b"RS+ a.b\r\nRS+ c.d\r\nRS+ e.f\r\n"
    stream.feed(Chunk(1, 1, "", 0, interest), out)
    stream.start()
    found = stream.proceed(out) or stream.finish(out)
    assert isinstance(found, Proven) and not out
