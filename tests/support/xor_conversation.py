"""Captures of NATS connections inside the made-up layer of `xor_layer`, and of the same without a layer."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support import xor_layer
from tests.support.conversations import CONNECT, INFO
from tests.support.pcapwriter import Conversation, Record, pcap_file

KEY = b"\x11\x82\x33\xc4\x55\xa6\x77\x98"
GREETING = xor_layer.GREETING + KEY
_HANDSHAKE_PACKETS = 3
_GREETING_PACKETS = 2  # with its acknowledgement

Harm = Callable[[list[Record]], list[Record]]


def records_of(port: int, layered: bool, harm: Harm = list) -> list[Record]:
    """A client that asks and is answered, 150 times; plain, or XORed after the greeting. `harm` gets the
    packets after the greeting, the same number of both."""
    conversation = Conversation(
        ("10.0.0.1", port), ("10.0.0.2", 4222), now_ns=1_700_000_000_000_000_000 + port
    )
    conversation.handshake()
    sent = {conversation.client: 0, conversation.server: len(GREETING)}

    def say(sender: tuple[str, int], data: bytes) -> None:
        wire = xor_layer.xored(data, KEY, sent[sender]) if layered else data
        sent[sender] += len(data)
        conversation.say(sender, wire, size=300)

    if layered:
        conversation.from_server(GREETING)
    say(conversation.server, INFO)
    say(conversation.client, CONNECT + b"SUB a.* 1\r\nPING\r\n")
    say(conversation.server, b"PONG\r\n")
    for number in range(150):
        body = b"%d" % number * (number % 40)
        say(conversation.client, b"PUB a.%d in.%d %d\r\n%s\r\n" % (number, number, len(body), body))
        say(
            conversation.server,
            b"MSG a.%d 1 in.%d %d\r\n%s\r\n" % (number, number, len(body), body),
        )
    conversation.close()
    head = _HANDSHAKE_PACKETS + (_GREETING_PACKETS if layered else 0)
    return conversation.records[:head] + harm(conversation.records[head:])


def capture(path: Path, harm: Harm = list) -> str:
    """A plain and two layered conversations, packet by packet in turn. All lose the same packets."""
    some = [records_of(port, port != 40002, harm) for port in (40001, 40002, 40003)]
    # A conversation has its packets in the order of the capture, which need not be that of their times.
    every = [packet for packets in zip(*map(_padded, some)) for packet in packets if packet]
    path.write_bytes(pcap_file(every))
    return str(path)


def _padded(packets: Sequence[Record]) -> list[Record | None]:
    return [*packets, *[None] * _GREETING_PACKETS]


def lossy(packets: list[Record]) -> list[Record]:
    """Every twentieth packet lost, but for the first and the last, and many swapped."""
    rng = random.Random(11)
    kept = packets[:9] + [packet for packet in packets[9:-4] if rng.random() > 0.05] + packets[-4:]
    for at in range(12, len(kept) - 5, 9):
        kept[at], kept[at + 1] = kept[at + 1], kept[at]
    return kept
