"""Chains of frames: which contexts their lines leave, and what remains when the first frames are dropped."""

from __future__ import annotations

from dissect.nats.framing.contexts import ALL
from dissect.nats.framing.resync.chain import Chain
from natsync.protocol import Context, Kind, Role

CLIENT = Context(Role.CLIENT, Kind.CLIENT)


def test_a_line_leaves_the_contexts_that_it_fits() -> None:
    chain = Chain(0, ALL)
    assert chain.read(b"PING\r\n") == 0
    assert not chain.specific and len(chain.contexts) == len(ALL)
    assert chain.read(b"PUB a 5\r\n") == 7
    assert chain.specific and chain.contexts == (CLIENT,)
    assert chain.ops == {"PING", "PUB"}


def test_a_line_that_fits_no_context_is_no_frame() -> None:
    chain = Chain(0, (CLIENT,))
    assert chain.read(b"MSG a 1 5\r\n") is None
    assert chain.read(b"PUB a many\r\n") is None
    assert chain.contexts == (CLIENT,) and not chain.ops


def test_an_operation_shows_who_may_send_it() -> None:
    chain = Chain(0, ALL)
    assert [reader.context for reader in chain.readers_of(b"PUB")] == [CLIENT]
    assert not Chain(0, (CLIENT,)).readers_of(b"MSG")


def test_an_account_with_a_dot_is_noted() -> None:
    chain = Chain(0, (Context(Role.CLIENT, Kind.ROUTE),))
    chain.read(b"RMSG $G orders.new 5\r\n")
    assert not chain.dotted
    chain.read(b"RMSG orders.new _INBOX.1 5\r\n")  # more likely the subject of a dedicated route
    assert chain.dotted


def test_frames_before_a_packet_start_are_dropped_where_others_follow() -> None:
    chain = Chain(6, ALL)
    assert not chain.shorten()
    chain.read(b"PUB a 0\r\n")
    chain.frames, chain.next = 1, 17
    chain.anchor()
    assert not chain.shorten()
    chain.read(b"PING\r\n")
    chain.frames, chain.next = 2, 23
    assert chain.shorten()
    assert (chain.start, chain.frames, chain.ops) == (17, 1, {"PING"})
