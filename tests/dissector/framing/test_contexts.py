"""Which kinds of connection a control line may belong to."""

from __future__ import annotations

import pytest

from dissect.nats.framing.contexts import ALL, NATURAL, ContextReader, agreed, mirrored
from dissect.nats.transport.patterns import CANDIDATE, START
from natsync.protocol import Context, Kind, Role


def kinds(line: bytes, sender: Role) -> set[str]:
    """How a line may be read, in words."""
    natural = NATURAL.get(line.split()[0], frozenset(ALL))
    found = {
        context
        for context in ALL
        if context.sender is sender and context in natural and ContextReader(context).read(line)
    }
    return {f"{c.kind.value}{' dedicated' * c.dedicated}" for c in found if c.kind}


@pytest.mark.parametrize(
    "line, expected",
    [
        (b"PUB a 5\r\n", {"client"}),
        (b"SUB a 1\r\n", {"client"}),
        (b"SUB a  RSID:3:1\r\n", {"route"}),
        (b"RS+ A a\r\n", {"route"}),
        (b"RS+ a\r\n", {"route dedicated"}),
        (b"RS+ a g 2\r\n", {"route dedicated"}),
        (b"RMSG A a 5\r\n", {"route", "route dedicated", "gateway"}),
        (b"RMSG $SYS.REQ a 5\r\n", {"route dedicated"}),
        (b"RMSG a | g1 g2 5\r\n", {"route dedicated"}),
        (b"LS+ a\r\n", {"leafnode"}),
        (b"LS+ o A a\r\n", {"route"}),
        (b"LMSG a 5\r\n", {"leafnode"}),
        (b"LMSG o A a 0 5\r\n", {"route", "route dedicated"}),
        (b"HMSG A a 12 15\r\n", {"route", "route dedicated", "gateway", "leafnode"}),
    ],
)
def test_operations_of_the_originator_fit_these_kinds(line: bytes, expected: set[str]) -> None:
    found = kinds(line, Role.CLIENT)
    if line.startswith(b"SUB a  R"):
        assert {kind.split()[0] for kind in found} == expected
    else:
        assert found == expected


@pytest.mark.parametrize(
    "line, expected",
    [
        (b"MSG a 1 5\r\n", {"client"}),
        (b"RS+ A a\r\n", {"route", "gateway"}),
        (b"A- A\r\n", {"gateway"}),
        (b"+OK\r\n", {"client"}),
    ],
)
def test_operations_of_the_responder_fit_these_kinds(line: bytes, expected: set[str]) -> None:
    assert kinds(line, Role.SERVER) == expected


def test_a_reading_gives_the_size_of_the_body() -> None:
    found = ContextReader(Context(Role.CLIENT)).read(b"PUB a 5\r\n")
    assert found and found[1] == 7


def test_only_what_real_peers_write_is_a_start() -> None:
    assert START.match(b"PING\r\n")
    assert not START.match(b"PINGS\r\n")
    assert not START.match(b"ping\r\n")
    assert not START.match(b"PUBLISH x\r\n")
    assert CANDIDATE.search(b"x\nMSG a 1 2")


def test_the_contexts_of_two_sides_agree_on_one_kind() -> None:
    leaf, client = Context(Role.SERVER, Kind.LEAFNODE), Context(Role.SERVER, Kind.CLIENT)
    assert agreed((client, leaf), (mirrored(leaf),)) == leaf
    assert agreed((client, leaf), ()) == client
