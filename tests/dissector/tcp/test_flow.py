"""Connections: how they are named."""

from __future__ import annotations

import pytest

from dissect.nats.tcp.flow import community_id, endpoints, reversed_key, session_id, undirected

from tests.support.pcapwriter import Conversation
from tests.support.segments import segments_of


@pytest.mark.parametrize(
    ("source", "target", "ports", "name"),
    [  # the first two from the specification's baseline, the others from its reference implementation
        ("128.232.110.120", "66.35.250.204", (34855, 80), "1:LQU9qZlK+B5F3KDmev6m5PMibrg="),
        ("66.35.250.204", "128.232.110.120", (80, 34855), "1:LQU9qZlK+B5F3KDmev6m5PMibrg="),
        ("10.0.0.1", "10.0.0.1", (9, 10), "1:MuTZPBs0vepVlCY0rf27wxHmsYo="),
        ("10.0.0.1", "10.0.0.2", (65535, 4222), "1:cZ9j9vHLLo0J7DdXuGLEWpu7dZc="),
        ("fd00::1", "fd00::2", (4222, 40000), "1:qMB4Vx7xbPFsqVnzz99dP2QzCPs="),
    ],
)
def test_the_community_id_is_that_of_other_tools(
    source: str, target: str, ports: tuple[int, int], name: str
) -> None:
    conversation = Conversation((source, ports[0]), (target, ports[1]))
    (segment,) = segments_of(conversation.handshake().records[:1])
    assert community_id(segment.key) == name


def test_the_session_id_is_the_community_id_and_the_first_packet() -> None:
    (segment,) = segments_of(Conversation().handshake().records[:1])
    name = community_id(segment.key)
    assert name == "1:yvg/hVFxoFK11DIvmDNGrNR3X8M="
    assert session_id(name, 1700000000123456000) == "7e93083f2d194d40"


@pytest.mark.parametrize("server", [("10.0.0.2", 4222), ("10.0.0.1", 4222), ("fd00::2", 1)])
def test_keys_have_two_directions(server: tuple[str, int]) -> None:
    client = ("fd00::1", 40000) if ":" in server[0] else ("10.0.0.1", 40000)
    conversation = Conversation(client, server).handshake()
    there, back = (segment.key for segment in segments_of(conversation.records[:2]))
    assert reversed_key(there) == back
    assert reversed_key(back) == there
    assert undirected(there) == undirected(back)
    assert endpoints(there) == endpoints(back)[::-1]


def test_endpoints_are_written_as_users_write_them() -> None:
    four, six = Conversation(), Conversation(("fd00::1", 1), ("fd00:0:0:1::2", 2))
    keys = [
        segment.key
        for conversation in (four, six)
        for segment in segments_of(conversation.handshake().records[:1])
    ]
    assert endpoints(keys[0]) == ("10.0.0.1:40000", "10.0.0.2:4222")
    assert endpoints(keys[1]) == ("[fd00::1]:1", "[fd00:0:0:1::2]:2")


def test_ipv4_mapped_addresses_are_the_same_in_every_python() -> None:
    mapped = [bytes(10) + b"\xff\xff" + bytes(ends) for ends in ((10, 0, 0, 7), (0, 0, 0, 1))]
    key = b"".join(mapped) + bytes((0, 1, 0, 2))
    assert endpoints(key) == ("[::ffff:a00:7]:1", "[::ffff:0:1]:2")
