"""Captures that a sender could make to keep a dissector busy, each of a size that `n` sets.

The bytes of each grow as `n` does, and so should the time. A case returns the records of a capture file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

from tests.support.conversations import CONNECT, INFO
from tests.support.packets import ACK, PSH, SYN
from tests.support.pcapwriter import Conversation, Record

Case = Callable[[int], Iterable[Record]]

_PUBS = b"PUB a.b 5\r\nhello\r\n" * 3
_LONG = b"a." * 1990


def _addresses(count: int) -> Iterator[tuple[str, int]]:
    return ((f"10.{at >> 16}.{at >> 8 & 255}.{at & 255}", 40_000) for at in range(1, count + 1))


def _joined(conversations: Iterable[Conversation]) -> Iterator[Record]:
    for conversation in conversations:
        yield from conversation.records


def _begun() -> Conversation:
    return Conversation().handshake().from_server(INFO).from_client(CONNECT)


def _sent_by_client(*lines: bytes) -> list[Record]:
    """A client that says these lines."""
    return _begun().from_client(b"".join(lines)).records


def _answered(asked: Iterable[bytes], answers: Iterable[bytes]) -> list[Record]:
    """A client that says some lines at once, and then a server that does."""
    return _begun().from_client(b"".join(asked)).from_server(b"".join(answers)).records


def _packets(n: int, payload: bytes) -> tuple[list[Record], list[Record]]:
    """The beginning of a connection, and packets of the client with the same payload."""
    conversation = _begun()
    begin = len(conversation.records)
    for _ in range(n):
        conversation.packet(conversation.client, PSH | ACK, payload)
    return conversation.records[:begin], conversation.records[begin:]


def floods(n: int) -> Iterator[Record]:
    """SYNs that nobody answers."""
    for client in _addresses(n):
        conversation = Conversation(client)
        conversation.packet(conversation.client, SYN)
        yield from conversation.records


def short_lives(n: int) -> Iterator[Record]:
    """Connections that say INFO and close."""
    conversations = (
        Conversation(client).handshake().from_server(INFO).close() for client in _addresses(n)
    )
    return _joined(conversations)


def short_and_repeated(n: int) -> Iterator[Record]:
    """The same, and every packet of the server comes three times."""
    for client in _addresses(n):
        conversation = Conversation(client).handshake().from_server(INFO)
        yield from (*conversation.records, *conversation.records[-1:] * 2)


def ports_again(n: int) -> Iterator[Record]:
    """Connections between the same two ports, one after the other."""
    numbers = ((at * 7919 << 16 & 0xFFFFFFFF, at * 104_729 << 16 & 0xFFFFFFFF) for at in range(n))
    return _joined(Conversation(isn=isn).handshake().from_server(INFO).close() for isn in numbers)


def bytes_apart(n: int) -> Iterable[Record]:
    """A packet for every byte."""
    return _begun().from_client(b"PUB a.b 5\r\nhello\r\n" * n, size=1).records


def fragments_of_a_payload(n: int) -> Iterable[Record]:
    """One payload, a byte in each packet."""
    return _begun().from_client(b"PUB a.b %d\r\n" % n + bytes(n), size=1).records


def gaps(n: int) -> Iterable[Record]:
    """Every second packet is missing, and nobody acknowledges."""
    begin, packets = _packets(2 * n, _PUBS)
    return begin + packets[::2]


def gaps_in_payloads(n: int) -> Iterable[Record]:
    """Every second packet is missing; the others end in the middle of a payload."""
    begin, packets = _packets(2 * n, b"PUB a.b 500\r\n" + bytes(100))
    return begin + packets[::2]


def gaps_between_look_alikes(n: int) -> Iterable[Record]:
    """Every second packet is missing; the others nearly have frames."""
    begin, packets = _packets(2 * n, b"x\r\nPUB a 1\r\nPUB b 1\r\n")
    return begin + packets[::2]


def backwards(n: int) -> Iterable[Record]:
    """All packets in reversed order."""
    begin, packets = _packets(n, _PUBS)
    return begin + packets[::-1]


def strays(n: int) -> Iterator[Record]:
    """Eight conversations with the same addresses and ports that take turns."""
    conversations = [Conversation(isn=(at << 28, at << 29)).handshake() for at in range(8)]
    starts = [len(conversation.records) for conversation in conversations]
    for conversation in conversations:
        for _ in range(n):
            conversation.packet(conversation.client, PSH | ACK, _PUBS)
    for turn in zip(
        *(conversation.records[start:] for conversation, start in zip(conversations, starts))
    ):
        yield from turn


def no_frames(n: int) -> Iterable[Record]:
    """Bytes that nearly look like frames."""
    return _sent_by_client(b"PUB a.b 5\r\nPUB a.b 99\r\n+OK\r\nMSG a 1 \r\n" * n)


def many_connects(n: int) -> Iterable[Record]:
    """A connection that logs in over and over, each time with another password."""
    return _sent_by_client(
        *(b'CONNECT {"user":"u%d","pass":"secret-%d"}\r\n' % (at, at) for at in range(n))
    )


def giant_connect(n: int) -> Iterable[Record]:
    """A CONNECT with thousands of names, passwords among them."""
    pairs = b",".join(b'"name%d":"v","pass":"secret-%d"' % (at, at) for at in range(n))
    return (
        Conversation()
        .handshake()
        .from_server(INFO)
        .from_client(b"CONNECT {%s}\r\n" % pairs)
        .records
    )


def many_infos(n: int) -> Iterable[Record]:
    """INFO over and over, each with 50 other servers and their passwords."""
    urls = json.dumps([f"nats://u:p{at}@10.0.0.{at}:4222" for at in range(50)]).encode()
    infos = (b'INFO {"server_id":"S%d","connect_urls":%s}\r\n' % (at, urls) for at in range(n))
    return _begun().from_server(b"".join(infos)).records


def deep_json(n: int) -> Iterable[Record]:
    """INFO over and over, with objects in objects."""
    info = b"INFO " + b'{"a":' * 400 + b"1" + b"}" * 400 + b"\r\n"
    return _begun().from_server(info * n).records


def deep_bodies(n: int) -> Iterable[Record]:
    """Requests to JetStream with lists in lists."""
    body = b"[" * 900 + b"]" * 900
    line = b"PUB $JS.API.STREAM.CREATE.x r %d\r\n%s\r\n" % (len(body), body)
    return _sent_by_client(line * n)


def many_headers(n: int) -> Iterable[Record]:
    """Messages with 2000 headers each."""
    block = b"NATS/1.0\r\n" + b"".join(b"k%d: v\r\n" % at for at in range(2000)) + b"\r\n"
    return _sent_by_client(b"HPUB a.b %d %d\r\n%s\r\n" % (len(block), len(block), block) * n)


def errors(n: int) -> Iterable[Record]:
    """Errors that repeat one of many passwords."""
    connects = (b'CONNECT {"user":"u%d","pass":"secret-%d"}\r\n' % (at, at) for at in range(n // 8))
    text = b"-ERR 'Permissions Violation for Publish to \"secret-17\"'\r\n"
    return _answered(connects, [text * n])


def errors_in_turn(n: int) -> Iterable[Record]:
    """A login with another password, and an error that repeats it, over and over."""
    conversation = Conversation().handshake().from_server(INFO)
    for at in range(n):
        conversation.from_client(b'CONNECT {"user":"u%d","pass":"secret-%d"}\r\n' % (at, at))
        conversation.from_server(b"-ERR 'no user u%d with secret-%d'\r\n" % (at, at))
    return conversation.records


def refusals(n: int) -> Iterable[Record]:
    """Errors each of which may be about any of the latest subscriptions, with long subjects."""
    subs = (b"SUB %sx%d %d\r\n" % (_LONG, at, at) for at in range(n // 128))
    return _answered(subs, [b"-ERR 'Invalid Subject'\r\n" * n])


def violations(n: int) -> Iterable[Record]:
    """Subscriptions, and then an error about each."""
    subs = (b"SUB a.%d %d\r\n" % (at, at) for at in range(n))
    text = b"-ERR 'Permissions Violation for Subscription to \"a.%d\"'\r\n"
    return _answered(subs, (text % at for at in range(n)))


def long_subjects(n: int) -> Iterable[Record]:
    """Messages without payload on ever other subjects of 4000 bytes."""
    return _sent_by_client(*(b"PUB %sx%d 0\r\n\r\n" % (_LONG, at) for at in range(n)))


def many_sids(n: int) -> Iterable[Record]:
    """Subscriptions, a message for each, and the end of each."""
    conversation = _begun().from_client(b"".join(b"SUB a.b %d\r\n" % at for at in range(n)))
    conversation.from_server(b"".join(b"MSG a.b %d 8\r\n%08d\r\n" % (at, at) for at in range(n)))
    return conversation.from_client(b"".join(b"UNSUB %d\r\n" % at for at in range(n))).records


def one_sid(n: int) -> Iterable[Record]:
    """One subscription that is opened and closed over and over."""
    return _sent_by_client(b"SUB a.b 1\r\nUNSUB 1 5\r\n" * n)


def wildcards(n: int) -> Iterable[Record]:
    """Subscriptions with many wildcards, and messages that they fit."""
    subs = (b"SUB %s> %d\r\n" % (b"*." * (at % 50), at) for at in range(n))
    return _sent_by_client(*subs, *(b"PUB a.b.c.%d 0\r\n\r\n" % at for at in range(n)))


def acknowledged(n: int) -> Iterable[Record]:
    """Deliveries of JetStream, and then the acknowledgement of each."""
    reply = b"$JS.ACK.S.C.1.%d.%d.1700000000000000000.0"
    replies = [reply % (at, at) for at in range(1, n)]
    conversation = _begun().from_server(
        b"".join(b"MSG a.b 1 %s 0\r\n\r\n" % each for each in replies)
    )
    return conversation.from_client(
        b"".join(b"PUB %s 4\r\n+ACK\r\n" % each for each in replies)
    ).records


def discoveries(n: int) -> Iterable[Record]:
    """A service of which ever more instances answer."""
    body = (
        b'{"type":"io.nats.micro.v1.info_response","name":"s","id":"i%d","version":"1.0.0",'
        b'"endpoints":[{"name":"e","subject":"e.%d","queue_group":"q"}]}'
    )
    bodies = (body % (at, at) for at in range(n))
    answers = (b"MSG r 1 %d\r\n%s\r\n" % (len(each), each) for each in bodies)
    return _answered([b"SUB r 1\r\nPUB $SRV.INFO r 0\r\n\r\n"], answers)


def tiny_messages(n: int) -> Iterable[Record]:
    """Messages of 11 bytes, all equal."""
    return _sent_by_client(b"PUB a 0\r\n\r\n" * n)


def tiny_requests(n: int) -> Iterable[Record]:
    """Requests of 16 bytes, each with a reply."""
    asked = (b"PUB a r.%d 0\r\n\r\n" % at for at in range(n))
    return _answered([b"SUB r.* 1\r\n", *asked], (b"MSG r.%d 1 0\r\n\r\n" % at for at in range(n)))


def tiny_objects(n: int) -> Iterable[Record]:
    """Objects of a byte, each under another name."""
    return _sent_by_client(*(b"PUB $O.b.C.n%d r 1\r\nx\r\n" % at for at in range(n)))


def equal_messages(n: int) -> Iterator[Record]:
    """Publishers whose messages are all equal, so that nobody knows which one a server sends on."""
    pubs, msgs = b"PUB a.b 1\r\nx\r\n" * 20, b"MSG a.b 1 1\r\nx\r\n" * 20
    for client in _addresses(n):
        conversation = (
            Conversation(client)
            .handshake()
            .from_server(INFO)
            .from_client(CONNECT + b"SUB a.b 1\r\n")
        )
        yield from conversation.from_client(pubs).from_server(msgs).close().records


CASES: dict[Case, int] = {
    floods: 2000,
    short_lives: 1500,
    short_and_repeated: 1500,
    ports_again: 1500,
    bytes_apart: 200,
    fragments_of_a_payload: 5000,
    gaps: 1500,
    gaps_in_payloads: 2000,
    gaps_between_look_alikes: 2000,
    backwards: 2500,
    strays: 250,
    no_frames: 5000,
    many_connects: 5000,
    giant_connect: 5000,
    many_infos: 100,
    deep_json: 100,
    deep_bodies: 500,
    many_headers: 25,
    errors: 5000,
    errors_in_turn: 2000,
    refusals: 10_000,
    violations: 5000,
    long_subjects: 500,
    many_sids: 5000,
    one_sid: 8000,
    wildcards: 1000,
    acknowledged: 2000,
    discoveries: 1000,
}
"""The cases, and the smaller one of the two sizes at which each is measured."""

TINY: dict[Case, int] = {
    tiny_messages: 10_000,
    tiny_requests: 5000,
    tiny_objects: 5000,
    equal_messages: 200,
}
"""Cases whose messages are so small that a byte of the capture makes more than a byte of rows: each message
is a row of `frames` and one of `paths`, and each request a row of `requests` as well."""
