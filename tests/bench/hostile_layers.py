"""What a sender could say between TCP and NATS to keep a dissector busy, each of a size that `n` sets.

A case returns the records of a capture file. Those in TLS are said to a server whose secrets are known:
`SECRETS` is a key log for them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable

from dissect.nats.transport.s2.codec import masked_checksum
from dissect.nats.transport.s2.layer import IDENTIFIER
from natsync.protocol.websocket import Opcode, build_frame, deflate

from tests.support.conversations import CONNECT, INFO
from tests.support.pcapwriter import Conversation, Record

Case = Callable[[int], Iterable[Record]]

_MASK = b"mask"
_DEFLATES = (
    b"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; "
    b"client_no_context_takeover\r\n"
)
_BOMB_BYTES = 1 << 20  # of plaintext, in a message or block
_RANDOM, _SECRET = bytes(range(32)), bytes(48)
SECRETS = b"".join(
    b"%s %s %s\n" % (label, _RANDOM.hex().encode(), _SECRET.hex().encode())
    for label in (
        b"CLIENT_RANDOM",
        b"CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        b"SERVER_HANDSHAKE_TRAFFIC_SECRET",
        b"CLIENT_TRAFFIC_SECRET_0",
        b"SERVER_TRAFFIC_SECRET_0",
    )
)


def _tls(version: int, suite: int) -> Conversation:
    """INFO, and then TLS up to the hellos."""
    extension = b"\x00\x2b\x00\x03\x02\x03\x04"
    hello = b"\x03\x03" + _RANDOM + b"\0" + b"\0\x02" + suite.to_bytes(2, "big") + b"\x01\0"
    hello += len(extension).to_bytes(2, "big") + extension
    answer = b"\x03\x03" + _RANDOM + b"\0" + suite.to_bytes(2, "big") + b"\0"
    chosen = b"\x00\x2b\x00\x02\x03\x04" if version == 0x0304 else b""
    answer += len(chosen).to_bytes(2, "big") + chosen
    conversation = Conversation().handshake().from_server(INFO)
    conversation.from_client(_record(22, b"\x01" + len(hello).to_bytes(3, "big") + hello))
    return conversation.from_server(_record(22, b"\x02" + len(answer).to_bytes(3, "big") + answer))


def _record(kind: int, payload: bytes) -> bytes:
    return bytes((kind, 3, 3)) + len(payload).to_bytes(2, "big") + payload


def tls_records_of_a_byte(n: int) -> Iterable[Record]:
    """Records of one byte in TLS 1.3: too short to be any, but the keys are known."""
    return _tls(0x0304, 0x1301).from_client(_record(23, b"x") * n).records


def tls_records_of_nothing(n: int) -> Iterable[Record]:
    """Records of no byte."""
    return _tls(0x0304, 0x1301).from_client(_record(23, b"") * n).records


def tls_records_that_fail(n: int) -> Iterable[Record]:
    """Records whose tag is wrong, each long enough to be tried."""
    return _tls(0x0304, 0x1301).from_client(_record(23, bytes(17)) * n).records


def tls_lengths_that_lie(n: int) -> Iterable[Record]:
    """Records that announce more bytes than any record has."""
    return _tls(0x0304, 0x1301).from_client((b"\x17\x03\x03\xff\xff" + bytes(20)) * n).records


def tls_bad_padding(n: int) -> Iterable[Record]:
    """CBC records of TLS 1.2 whose padding or MAC is wrong."""
    conversation = _tls(0x0303, 0xC013).from_client(_record(20, b"\x01"))
    return conversation.from_client(_record(23, bytes(64)) * n).records


def _upgraded(extensions: bytes = b"") -> Conversation:
    request = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    request += b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
    answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    conversation = (
        Conversation()
        .handshake()
        .from_client(request + b"\r\n")
        .from_server(answer + extensions + b"\r\n")
    )
    conversation.from_server(build_frame(Opcode.BINARY, INFO))
    return conversation.from_client(build_frame(Opcode.BINARY, CONNECT, _MASK))


def tiny_frames(n: int) -> Iterable[Record]:
    """WebSocket frames of a byte, which are one NATS message a dozen."""
    frames = b"".join(
        build_frame(Opcode.BINARY, b"%c" % each, _MASK) for each in b"PUB a 1\r\nx\r\n"
    )
    return _upgraded().from_client(frames * (n // 12)).records


def empty_frames(n: int) -> Iterable[Record]:
    """WebSocket frames without payload, and pings."""
    frames = build_frame(Opcode.BINARY, b"", _MASK) + build_frame(Opcode.PING, b"", _MASK)
    return _upgraded().from_client(frames * (n // 2)).records


def fragments_without_an_end(n: int) -> Iterable[Record]:
    """A compressed message in ever more fragments of a byte."""
    first, more = b"\x42\x81" + _MASK + b"x", b"\x00\x81" + _MASK + b"x"
    return _upgraded(_DEFLATES).from_client(first + more * n).records


def tiny_compressed(n: int) -> Iterable[Record]:
    """Compressed messages, each of one byte of plaintext."""
    frames = [
        build_frame(Opcode.BINARY, deflate(b"%c" % each), _MASK, True)
        for each in b"PUB a 1\r\nx\r\n"
    ]
    return _upgraded(_DEFLATES).from_client(b"".join(frames) * (n // 12)).records


def _inflates_to(megabytes: int) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    parts = [compressor.compress(bytes(_BOMB_BYTES)) for _ in range(megabytes)]
    message = b"".join([*parts, compressor.flush(zlib.Z_SYNC_FLUSH)])[:-4]
    return build_frame(Opcode.BINARY, message, _MASK, True)


def deflate_bomb(n: int) -> Iterable[Record]:
    """Compressed messages of a thousand bytes, each of which becomes a megabyte."""
    return _upgraded(_DEFLATES).from_client(_inflates_to(1) * n).records


def deflate_in_one_message(n: int) -> Iterable[Record]:
    """One compressed message of which each kilobyte becomes a megabyte."""
    return _upgraded(_DEFLATES).from_client(_inflates_to(n)).records


def _compressed(chunks: bytes) -> Iterable[Record]:
    conversation = (
        Conversation(server=("10.0.0.2", 7422)).handshake().from_server(INFO).from_client(CONNECT)
    )
    return conversation.from_client(IDENTIFIER + chunks).records


def _chunk(kind: int, checksum: int, data: bytes) -> bytes:
    head = bytes((kind,)) + (len(data) + 4).to_bytes(3, "little")
    return head + checksum.to_bytes(4, "little") + data


def s2_bomb(n: int) -> Iterable[Record]:
    """Blocks of 20 bytes, each of which becomes a megabyte."""
    # The length, a literal of one byte, and copies of it: 16 MiB - 1 is the longest repeat (S2's format).
    block = (
        b"\x80\x80\x40"
        + b"\x00\x00"
        + b"\x01\x01"
        + b"\x1d\x00"
        + (_BOMB_BYTES - 1 - 4 - 65_540).to_bytes(3, "little")
    )
    return _compressed(_chunk(0, masked_checksum(bytes(_BOMB_BYTES)), block) * n)


def s2_of_pings(n: int) -> Iterable[Record]:
    """Blocks of 24 bytes, each of which becomes 174,763 frames."""
    pings = b"PING\r\n" * 174_763
    block = (
        b"\x82\x80\x40"
        + b"\x14PING\r\n"
        + b"\x01\x06"
        + b"\x1d\x00"
        + (len(pings) - 6 - 4 - 65_540).to_bytes(3, "little")
    )
    return _compressed(_chunk(0, masked_checksum(pings), block) * n)


def s2_tiny_chunks(n: int) -> Iterable[Record]:
    """Stored chunks of one byte."""
    chunks = b"".join(
        _chunk(1, masked_checksum(b"%c" % each), b"%c" % each) for each in b"PUB a 1\r\nx\r\n"
    )
    return _compressed(chunks * (n // 12))


def s2_wrong_checksums(n: int) -> Iterable[Record]:
    """Flushes of a right chunk and a wrong one."""
    right = _chunk(1, masked_checksum(b"+"), b"+")
    return _compressed((right + _chunk(1, 0, b"x") + IDENTIFIER) * n)


CASES: dict[Case, int] = {
    s2_of_pings: 200,
    tls_records_of_a_byte: 20_000,
    tls_records_of_nothing: 20_000,
    tls_records_that_fail: 5000,
    tls_lengths_that_lie: 5000,
    tls_bad_padding: 2000,
    tiny_frames: 12_000,
    empty_frames: 12_000,
    fragments_without_an_end: 12_000,
    tiny_compressed: 12_000,
    deflate_bomb: 20,
    deflate_in_one_message: 20,
    s2_bomb: 20,
    s2_tiny_chunks: 12_000,
    s2_wrong_checksums: 5000,
}
"""The cases, and the smaller one of the two sizes at which each is measured."""

BOMBS = {deflate_bomb, deflate_in_one_message, s2_bomb, s2_of_pings}
"""Those whose bytes expand a thousand times or more."""

MANY_ROWS = {s2_wrong_checksums}
"""Those of which every 28 bytes are three anomalies."""
