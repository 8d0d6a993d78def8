"""Connections of which a hello, or all of the handshake, is not in the capture."""

from __future__ import annotations

import pickle
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dissect.nats import FrameRecord, Options
from dissect.nats.pipeline import records
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import AnomalyRecord, SessionRecord
from dissect.nats.secrets.key_log import KeyLogs
from dissect.nats.transport.tls.crypto import (
    SUITES,
    VERSION_13,
    expand_label,
    next_secret,
    opener_13,
)
from dissect.nats.transport.tls.handshake import Handshake
from dissect.nats.transport.tls.keys import DirectionKeys
from dissect.nats.transport.tls.layer import TlsTransform
from dissect.nats.types import Chunk, Direction, Gap

from tests.dissector.samples.rows import CAPTURES, rewritten, sample
from tests.support.damage import Record
from tests.support.packets import place_of
from tests.support.partitioned import in_partitions

NAME = "tls-keys-2.15.1.pcap"
KEYS = CAPTURES / "tls-keys-2.15.1.keylog"
CLIENT_HELLO, SERVER_HELLO, APPLICATION_DATA = b"\x16\x03\x01", b"\x16\x03\x03", b"\x17\x03\x03"

Contents = dict[str, Counter[tuple[object, ...]]]
"""The frames of each connection, by its originator."""


def without(keep: Callable[[list[bytes], bytes], bool]) -> list[Record]:
    """The packets of the sample for which `keep` holds, which gets the payloads of the connection so far."""
    seen: dict[bytes, list[bytes]] = defaultdict(list)
    found = []
    for packet in sample(NAME).records:
        place = place_of(packet, sample(NAME).linktype)
        assert place
        payload = packet.data[place.payload :] if place.length else b""
        addresses, ports = place.key[:-4], place.key[-4:]
        half = len(addresses) // 2
        key = min(place.key, addresses[half:] + addresses[:half] + ports[2:] + ports[:2])
        if keep(seen[key], payload):
            found.append(packet)
        seen[key].append(payload)
    return found


def read(
    path: Path, keys: Path = KEYS
) -> tuple[Contents, dict[str, SessionRecord], list[AnomalyRecord]]:
    rows = list(
        records([str(path)], ("frames", "sessions", "anomalies"), Options(keylog=[str(keys)]))
    )
    sessions = {row.session: row for row in rows if isinstance(row, SessionRecord)}
    ports: dict[str, str] = {}
    for row in sessions.values():  # the server's port is below 10000 on either side
        ends = (row.originator, row.responder)
        ports[row.session] = max(ends, key=lambda end: int(end.rpartition(":")[2]))
    contents: Contents = defaultdict(Counter)
    for row in rows:
        if isinstance(row, FrameRecord):
            contents[ports[row.session]][row.op, row.subject, row.total_bytes] += 1
    by_port = {ports[name]: row for name, row in sessions.items()}
    return contents, by_port, [row for row in rows if isinstance(row, AnomalyRecord)]


@pytest.fixture(scope="module")
def whole() -> tuple[Contents, dict[str, SessionRecord], list[AnomalyRecord]]:
    return read(CAPTURES / NAME)


Whole = tuple[Contents, dict[str, SessionRecord], list[AnomalyRecord]]


def is_application_data(payload: bytes) -> bool:
    return payload.startswith(APPLICATION_DATA)


def is_13(row: SessionRecord) -> bool:
    return row.tls_version == "1.3"


def test_tls_13_is_read_from_the_middle(whole: Whole, tmp_path: Path) -> None:
    """The capture begins after the handshake."""
    kept = without(lambda seen, payload: sum(map(is_application_data, seen)) >= 3)
    contents, sessions, anomalies = read(rewritten(tmp_path, NAME, kept))
    expected = {port for port, row in whole[1].items() if is_13(row)}
    assert expected
    for port in expected:
        assert contents[port] and not contents[port] - whole[0][port]
        assert sessions[port].tls_version == "1.3"
        assert sessions[port].tls_cipher == whole[1][port].tls_cipher
    assert not set(contents) - expected
    reasons = {row.text for row in anomalies if row.anomaly == Anomaly.TLS_ERROR.value}
    assert reasons
    assert {text and text[:43] for text in reasons} == {
        "the handshake (TLS 1.2 needs it) is missing"
    }


def test_a_capture_may_begin_inside_a_record(whole: Whole, tmp_path: Path) -> None:
    """A record of 16 KiB takes a dozen packets: most captures of a busy connection begin inside one."""
    late = without(lambda seen, payload: sum(map(is_application_data, seen)) >= 3)
    wanted = next(int(port.rpartition(":")[2]) for port, row in whole[1].items() if is_13(row))
    kept: list[Record] = []  # of one connection
    cut: dict[bytes, Record] = {}
    for packet in late:
        place = place_of(packet, sample(NAME).linktype)
        assert place
        if wanted.to_bytes(2, "big") in (place.key[-4:-2], place.key[-2:]):
            kept.append(packet)
            if place.length and place.key not in cut:
                cut[place.key] = packet
    begun = [
        beheaded(each, 7) if any(each is first for first in cut.values()) else each for each in kept
    ]
    path = rewritten(tmp_path, NAME, begun)
    contents, sessions, _ = read(path)
    aligned, _, _ = read(rewritten(tmp_path, NAME, kept))
    assert sum(map(Counter.total, contents.values())) > 0
    for port, frames in contents.items():
        assert sessions[port].tls_version == "1.3" and not frames - aligned[port]
    tables, options = ("frames", "sessions", "anomalies"), Options(keylog=[str(KEYS)])
    parts = in_partitions([str(path)], 4_000, tables, options)
    assert sorted(map(repr, parts)) == sorted(map(repr, records([str(path)], tables, options)))


def beheaded(packet: Record, size: int) -> Record:
    """The packet without the first bytes of its payload (Ethernet, IPv4)."""
    data = bytearray(packet.data)
    tcp = 14 + (data[14] & 15) * 4
    payload = tcp + (data[tcp + 12] >> 4) * 4
    (total,), (number,) = struct.unpack_from("!H", data, 16), struct.unpack_from(
        "!I", data, tcp + 4
    )
    struct.pack_into("!H", data, 16, total - size)
    struct.pack_into("!I", data, tcp + 4, number + size & 0xFFFFFFFF)
    del data[payload : payload + size]
    return replace(packet, data=bytes(data), length=packet.length - size)


def test_the_clienthello_is_missing(whole: Whole, tmp_path: Path) -> None:
    """TLS 1.2 and 1.3 alike."""
    kept = without(lambda seen, payload: not payload.startswith(CLIENT_HELLO))
    contents, _, _ = read(rewritten(tmp_path, NAME, kept))
    for port, expected in whole[0].items():
        assert not contents[port] - expected
        assert contents[port].total() >= expected.total() - 1, whole[1][port].tls_cipher


def test_the_serverhello_is_missing(whole: Whole, tmp_path: Path) -> None:
    """TLS 1.3 after the server's clear INFO. Where TLS comes first, too little is left of the connection."""
    kept = without(lambda seen, payload: not payload.startswith(SERVER_HELLO) or len(payload) < 100)
    contents, _, anomalies = read(rewritten(tmp_path, NAME, kept))
    read_whole = 0
    for port, row in whole[1].items():
        assert not contents[port] - whole[0][port]
        if is_13(row) and ("INFO", None, 373) in contents[port]:
            assert contents[port] == whole[0][port]
            read_whole += 1
    assert read_whole == 2
    assert {row.text for row in anomalies if row.anomaly == Anomaly.TLS_ERROR.value} == {
        "the ServerHello is missing, and the key log has no secrets of TLS 1.3 for this client"
    }


@pytest.mark.parametrize("is_apart", [False, True])
def test_of_two_secrets_for_one_random_the_one_that_decrypts_is_used(
    whole: Whole, is_apart: bool, tmp_path: Path
) -> None:
    """Wrong secrets come first, in the same key log or in another one."""
    right = KEYS.read_text()
    wrong = re.sub(r"(?m) [0-9a-f]{2}([0-9a-f]*)$", r" ff\1", right)
    paths = [tmp_path / "first.keylog", tmp_path / "second.keylog"]
    for path, text in zip(paths, (wrong, right) if is_apart else (wrong + right, "")):
        path.write_text(text)
    options = Options(keylog=paths)
    rows = list(records([str(CAPTURES / NAME)], ["sessions", "anomalies"], options))
    sessions = {row.originator: row for row in rows if isinstance(row, SessionRecord)}
    assert sessions == whole[1]
    assert [row for row in rows if isinstance(row, AnomalyRecord)] == whole[2]


def test_a_key_log_without_these_connections_is_reported(tmp_path: Path) -> None:
    keys = tmp_path / "other.keylog"
    random, secret = "01" * 32, "02" * 32
    keys.write_text(
        "".join(f"{side}_TRAFFIC_SECRET_0 {random} {secret}\n" for side in ("CLIENT", "SERVER"))
    )
    kept = without(lambda seen, payload: any(map(is_application_data, seen)))
    contents, _, anomalies = read(rewritten(tmp_path, NAME, kept), keys)
    assert not contents
    assert any(
        "no secret of 1 connection in the key log opens" in (row.text or "") for row in anomalies
    )


def sealed(secret: bytes, sequence: int, content: bytes) -> bytes:
    """A record of TLS 1.3 with TLS_AES_128_GCM_SHA256; `content` ends with its type."""
    suite = SUITES[0x1301]
    key, iv = (
        expand_label(secret, name, size, suite.hash) for name, size in (("key", 16), ("iv", 12))
    )
    head = APPLICATION_DATA + (len(content) + 16).to_bytes(2, "big")
    nonce = int.from_bytes(iv, "big") ^ sequence
    return head + AESGCM(key).encrypt(nonce.to_bytes(12, "big"), content, head)


UPDATE = b"\x18\0\0\x01\0\x16"


@pytest.mark.parametrize("size", [1, 7, 1448])
def test_key_updates_go_on_with_the_next_secrets(size: int) -> None:
    """Two of them, with one record in between (RFC 8446, 4.6.3)."""
    transform, first = tls_13()
    second = next_secret(first, SUITES[0x1301])
    third = next_secret(second, SUITES[0x1301])
    wire = sealed(first, 0, b"PUB a 1\r\nx\r\n\x17") + sealed(first, 1, UPDATE)
    wire += sealed(second, 0, b"PING\r\n\x17") + sealed(second, 1, UPDATE)
    wire += sealed(third, 0, b"PONG\r\n\x17")
    found = b""
    for at in range(0, len(wire), size):
        chunk = Chunk(at, at, "t.pcap", at, wire[at : at + size])
        found += b"".join(each.data for each in transform.feed(chunk) if isinstance(each, Chunk))
    assert found == b"PUB a 1\r\nx\r\nPING\r\nPONG\r\n"
    assert transform.counts.skipped == 0 and transform.counts.span == len(wire)


@pytest.mark.parametrize(
    "begin, end, read", [(1, 2, 4), (1, 4, 3), (2, 3, 5), (2, 4, 4), (2.5, 3, 5), (2.5, 3.5, 4)]
)
def test_a_key_update_that_was_not_captured(begin: float, end: float, read: int) -> None:
    """A gap from one record to another; record 2 is the KeyUpdate. Five others are application data."""
    transform, first = tls_13()
    second, data = next_secret(first, SUITES[0x1301]), b"+OK\r\n\x17"
    records = [sealed(first, 0, data), sealed(first, 1, data), sealed(first, 2, UPDATE)]
    records += [sealed(second, number, data) for number in range(3)]
    wire, size = b"".join(records), len(records[0])
    start, stop = int(begin * size), int(end * size)
    found = transform.feed(Chunk(1, 1, "t.pcap", 0, wire[:start]))
    found += transform.feed(Gap(2, 2, "t.pcap", start, stop - start))
    found += transform.feed(Chunk(3, 3, "t.pcap", stop, wire[stop:]))
    text = b"".join(each.data for each in found if isinstance(each, Chunk))
    assert text == b"+OK\r\n" * read
    assert transform.counts.span == len(wire)


def tls_13() -> tuple[TlsTransform, bytes]:
    """The client's direction of a connection after its handshake, and the first secret of it."""
    random, secret = bytes(range(32)), bytes(range(40, 72))
    logs, known = KeyLogs(), Handshake()
    logs.embedded.add(b"CLIENT_TRAFFIC_SECRET_0 %s %s\n" % tuple(map(as_hex, (random, secret))))
    known.client_random, known.suite_code, known.version = random, 0x1301, VERSION_13
    return TlsTransform(Direction.ORIGINATOR, known, logs), secret


def as_hex(data: bytes) -> bytes:
    return data.hex().encode()


def test_saved_keys_hold_no_secret() -> None:
    keys = DirectionKeys(Handshake(), True, KeyLogs((str(KEYS),)))
    keys.opener = opener_13(SUITES[0x1301], bytes(32))
    assert pickle.loads(pickle.dumps(keys)).opener is None
