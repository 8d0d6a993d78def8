"""Bytes of real servers, 2.9.10 and 2.15.1, of all four kinds: every one of them is in a frame.

What the clients and servers counted themselves (truth.json) is what is read; what is read is written again
as it was, but for blanks that carry nothing.
"""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from natsync.protocol import Frame, Kind, Role, encode

from tests.protocol.captured import WHOLE, Connection, connections, counted, frames, truth
from tests.protocol.feeding import cut, decoder_of, drain

ORIGIN = {Role.CLIENT: "originator", Role.SERVER: "responder"}


def streams() -> list[tuple[str, Connection]]:
    return [(name, connection) for name in WHOLE for connection in connections(name)]


every_connection = pytest.mark.parametrize(
    "name, connection",
    streams(),
    ids=[f"{name.removesuffix('.pcap')} {found.originator}" for name, found in streams()],
)


def test_all_four_kinds_are_there_in_both_versions() -> None:
    kinds: dict[str, set[Kind | None]] = {}
    for name, connection in streams():
        decoder, _ = frames(connection)[Role.SERVER]
        kinds.setdefault(name.split("-")[1], set()).add(decoder.context.kind)
    assert kinds == {"2.15.1.pcap": {*Kind}, "2.9.10.pcap": {*Kind}}


def test_dedicated_routes_and_lnocu_are_there() -> None:
    contexts = [frames(found)[Role.SERVER][0].context for _, found in streams()]
    assert any(context.dedicated for context in contexts)
    assert any(context.lnocu for context in contexts)


@every_connection
def test_every_byte_is_in_a_frame(name: str, connection: Connection) -> None:
    for role, (decoder, found) in frames(connection).items():
        assert decoder.idle
        assert decoder.offset == len(connection.sent[role])
        assert sum(frame.total_bytes for frame in found) == decoder.offset


@every_connection
def test_the_operations_are_those_that_the_witness_counted(
    name: str, connection: Connection
) -> None:
    expected = truth()[name]["connections"].get(connection.originator)
    assert expected is not None
    for role, (_, found) in frames(connection).items():
        if ORIGIN[role] not in expected:
            continue
        got = counted(found)
        if expected["witness"] == "server":
            del got["INFO"]
        assert got == Counter(expected[ORIGIN[role]])


@pytest.mark.parametrize("name", [name for name in WHOLE if truth()[name]["totals"]])
def test_the_totals_of_a_kind_are_those_that_the_witness_counted(name: str) -> None:
    got: dict[str, dict[str, Counter[str]]] = {}
    for connection in connections(name):
        for role, (decoder, found) in frames(connection).items():
            kind = decoder.context.kind
            assert kind
            sides = got.setdefault(kind.value, {})
            sides.setdefault(ORIGIN[role], Counter()).update(counted(found))
    for kind_name, expected_sides in truth()[name]["totals"].items():
        for side, expected in expected_sides.items():
            del got[kind_name][side]["INFO"]
            assert got[kind_name][side] == Counter(expected)


@every_connection
def test_what_is_read_is_written_as_it_was(name: str, connection: Connection) -> None:
    for role, (decoder, found) in frames(connection).items():
        for frame in found:
            wire = connection.sent[role][frame.offset : frame.offset + frame.total_bytes]
            assert encode(frame, decoder.context) == plain(wire, frame)


def plain(wire: bytes, frame: Frame) -> bytes:
    """`wire` without blanks that say nothing: servers' after INFO, nats-py's where it has no reply, queue
    or maximum, and those of 2.9 where LS- has no origin.
    """
    line, _, body = wire.partition(b"\r\n")
    if frame.op in ("PUB", "HPUB", "SUB", "LS-"):
        line = re.sub(b" +", b" ", line)
    elif frame.op in ("INFO", "UNSUB"):
        line = line.rstrip(b" ")
    return line + b"\r\n" + body


@every_connection
def test_any_pieces_give_the_same_frames(name: str, connection: Connection) -> None:
    rng = random.Random(f"{name} {connection.originator}")
    for role, (whole, found) in frames(connection).items():
        stream = connection.sent[role]
        decoder = decoder_of(whole.context)
        got: list[Frame] = []
        for piece in cut(
            stream, [rng.randrange(len(stream) + 1) for _ in range(len(stream) // 20)]
        ):
            decoder.feed(piece)
            got += [frame for some in drain(decoder) for frame in some]
        assert got == found
        assert [frame.offset for frame in got] == [frame.offset for frame in found]
