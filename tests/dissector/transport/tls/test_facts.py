"""What TLS shows without secrets: facts of flows, and anomalies also where no NATS is seen."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from time import time_ns

import pytest

from dissect.nats import Options
from dissect.nats.pipeline import records
from dissect.nats.schema.records import AnomalyRecord, FlowRecord, Record, SessionRecord
from dissect.nats.secrets.key_log import KeyLogs
from dissect.nats.transport.tls.handshake import Handshake
from dissect.nats.transport.tls.layer import TlsTransform
from dissect.nats.types import Chunk, Direction, Oddity
from natsync.protocol.websocket import Opcode, build_frame

from tests.support.certificates import Authority, Paths
from tests.support.conversations import INFO
from tests.support.partitioned import in_one, in_partitions
from tests.support.pcapwriter import Conversation, pcap_file
from tests.support.tls_handshake import CLIENT, SERVER, Sent, handshake


@dataclass(frozen=True)
class Parties:
    """An authority, and what it has signed."""

    authority: Authority
    server: Paths
    expired: Paths
    client: Paths

    def serve(self, paths: Paths, version: ssl.TLSVersion) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(paths.cert, paths.key)
        context.load_verify_locations(self.authority.cert)
        return of_version(context, version)

    def dial(self, version: ssl.TLSVersion, verify: bool = True) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.cert))
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return of_version(context, version)


TLS_12, TLS_13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def of_version(context: ssl.SSLContext, version: ssl.TLSVersion) -> ssl.SSLContext:
    """The same context, with `version` as the only version."""
    context.minimum_version = context.maximum_version = version
    return context


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Parties:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    return Parties(
        authority,
        authority.issue("server", "localhost", days=2),
        authority.issue("late", "localhost", days=-2),
        authority.issue("worker"),
    )


def capture(folder: Path, sent: Sent, after_info: bool = True) -> str:
    """A connection whose TLS begins after INFO, or at once, at the time of now."""
    conversation = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 4222), now_ns=time_ns())
    conversation.handshake()
    if after_info:
        conversation.from_server(INFO)
    for sender, data in sent:
        (conversation.from_client if sender == CLIENT else conversation.from_server)(data)
    conversation.close()
    path = folder / "tls.pcap"
    path.write_bytes(pcap_file(conversation.records))
    return str(path)


def rows(path: str) -> tuple[FlowRecord, list[SessionRecord], list[AnomalyRecord]]:
    found: list[Record] = list(records([path], ("flows", "sessions", "anomalies")))
    (flow,) = (row for row in found if isinstance(row, FlowRecord))
    sessions = [row for row in found if isinstance(row, SessionRecord)]
    return flow, sessions, [row for row in found if isinstance(row, AnomalyRecord)]


CONVERSATION = [
    (SERVER, b"INFO {}\r\n"),
    (CLIENT, b"PING\r\n"),
    (SERVER, b"PONG\r\n"),
    (CLIENT, b"x" * 90),
]


@pytest.mark.parametrize("after_info", [True, False])
@pytest.mark.parametrize("version", [TLS_12, TLS_13])
def test_the_facts_of_a_connection(
    parties: Parties, tmp_path: Path, version: ssl.TLSVersion, after_info: bool
) -> None:
    client, server = parties.dial(version), parties.serve(parties.server, version)
    client.set_alpn_protocols(["nats", "http/1.1"])
    client.load_cert_chain(parties.client.cert, parties.client.key)
    server.verify_mode = ssl.CERT_REQUIRED
    flow, sessions, anomalies = rows(
        capture(tmp_path, handshake(client, server, CONVERSATION), after_info)
    )
    assert (flow.protocol, flow.tls_server_name) == ("tls", "localhost")
    assert flow.tls_alpn == ["nats", "http/1.1"]
    assert flow.ja3 and flow.ja4 and flow.ja4[:4] == ("t13d" if version is TLS_13 else "t12d")
    names = (flow.tls_subject, flow.tls_issuer, flow.tls_client_subject)
    if version is TLS_12:
        assert flow.tls_version == "1.2"
        assert names == ("CN=server", "CN=tests ca", "CN=worker")
        assert flow.tls_not_before_ns and flow.tls_not_after_ns
    else:
        assert (flow.tls_version, flow.tls_cipher) == ("1.3", "TLS_AES_256_GCM_SHA384")
        assert names == (None, None, None)
    assert not anomalies
    assert len(sessions) == after_info
    for row in sessions:
        assert (row.transport, row.tls_version) == ("tls", flow.tls_version)
        assert row.tls_cipher == flow.tls_cipher
        assert row.opaque_bytes == flow.bytes_originator + flow.bytes_responder - len(INFO)


@pytest.mark.parametrize("after_info", [True, False])
def test_what_is_wrong_is_an_anomaly_of_flows_too(
    parties: Parties, tmp_path: Path, after_info: bool
) -> None:
    client = parties.dial(TLS_12, verify=False)
    sent = handshake(client, parties.serve(parties.expired, TLS_12), CONVERSATION)
    flow, sessions, anomalies = rows(capture(tmp_path, sent, after_info))
    assert [row.anomaly for row in anomalies] == ["tls_certificate"]
    assert anomalies[0].sender == "responder" and anomalies[0].session == flow.session
    assert (anomalies[0].text or "").startswith("expired at 20")
    assert (anomalies[0].text or "").endswith("CN=late")
    assert len(sessions) == after_info


def joined(sent: Sent) -> Sent:
    """What one side says at a time, in one packet."""
    return [
        (sender, b"".join(data for _, data in group))
        for sender, group in groupby(sent, key=itemgetter(0))
    ]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("transport", ["tls", "websocket+tls"])
def test_what_is_wrong_hides_nothing_of_what_is_decrypted(
    parties: Parties, tmp_path: Path, transport: str, packed: bool
) -> None:
    """The certificate is reported before the first byte of plaintext, which begins WebSocket or NATS. The
    records with the end of the upgrade and with INFO may come in one packet."""
    client = parties.dial(TLS_13, verify=False)
    client.keylog_filename = str(tmp_path / "keys")
    conversation = [(SERVER, INFO), (CLIENT, b"CONNECT {}\r\nPING\r\n"), (SERVER, b"PONG\r\n")]
    if transport != "tls":
        frames = [(sender, build_frame(Opcode.BINARY, data)) for sender, data in conversation]
        conversation = [
            (CLIENT, b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"),
            (SERVER, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"),
            *frames,
        ]
    sent = handshake(client, parties.serve(parties.expired, TLS_13), conversation)
    setattr(client, "keylog_filename", None)  # closes the file
    options = Options(keylog=[str(tmp_path / "keys")])
    path = capture(tmp_path, joined(sent) if packed else sent, after_info=False)
    found = list(records([path], ("sessions", "anomalies"), options))
    (session,) = (row for row in found if isinstance(row, SessionRecord))
    assert (session.transport, session.kind) == (transport, "client")
    assert session.start == "handshake"
    assert [row.anomaly for row in found if isinstance(row, AnomalyRecord)] == ["tls_certificate"]


@pytest.mark.parametrize("has_keys", [True, False])
@pytest.mark.parametrize("packed", [False, True])
def test_a_server_that_asks_for_another_hello(
    parties: Parties, tmp_path: Path, packed: bool, has_keys: bool
) -> None:
    """A server with `curve_preferences` sends a HelloRetryRequest to clients that guess another curve. Both
    sides then send a ChangeCipherSpec that changes nothing, before their second hello."""
    client, server = parties.dial(TLS_13), parties.serve(parties.server, TLS_13)
    server.set_ecdh_curve("secp384r1")
    client.keylog_filename = str(tmp_path / "keys")
    conversation = [(SERVER, INFO), (CLIENT, b"CONNECT {}\r\nPING\r\n"), (SERVER, b"PONG\r\n")]
    sent = handshake(client, server, conversation)
    setattr(client, "keylog_filename", None)  # closes the file
    assert sum(bytes.fromhex("cf21ad74e59a6111") in data for _, data in sent) == 1
    options = Options(keylog=[str(tmp_path / "keys")] if has_keys else [])
    path = capture(tmp_path, joined(sent) if packed else sent, after_info=not has_keys)
    found = list(records([path], ("flows", "sessions", "anomalies"), options))
    (flow,) = (row for row in found if isinstance(row, FlowRecord))
    (session,) = (row for row in found if isinstance(row, SessionRecord))
    assert (flow.tls_version, flow.tls_cipher) == ("1.3", "TLS_AES_256_GCM_SHA384")
    assert (session.kind, session.transport) == ("client", "tls")
    assert session.frames_originator == ({"CONNECT": 1, "PING": 1} if has_keys else None)
    assert not [row for row in found if isinstance(row, AnomalyRecord)]


def test_an_old_version(parties: Parties, tmp_path: Path) -> None:
    """Not every OpenSSL has TLS 1.0: the ServerHello of a later version says so."""
    sent = handshake(
        parties.dial(TLS_12, False), parties.serve(parties.server, TLS_12), CONVERSATION
    )
    hello = sent[1][1]
    assert sent[1][0] == SERVER and hello[9:11] == b"\x03\x03"
    sent[1] = SERVER, hello[:9] + b"\x03\x01" + hello[11:]
    flow, _, anomalies = rows(capture(tmp_path, sent))
    assert flow.tls_version == "1.0"
    assert [(row.anomaly, row.text) for row in anomalies] == [("tls_old_version", "1.0")]


@pytest.mark.parametrize(
    "version, paths, text",
    [
        (TLS_12, "server", "unknown certificate authority"),
        (TLS_13, "server", "unknown certificate authority"),
        (TLS_12, "expired", "certificate expired"),
    ],
)
def test_a_client_that_refuses_the_certificate(
    parties: Parties, tmp_path: Path, version: ssl.TLSVersion, paths: str, text: str
) -> None:
    client = parties.dial(version)
    if paths == "server":
        client = of_version(
            ssl.create_default_context(cafile=str(Authority(tmp_path, "b").cert)), version
        )
    sent = handshake(client, parties.serve(getattr(parties, paths), version))
    flow, _, anomalies = rows(capture(tmp_path, sent, after_info=False))
    alerts = [row for row in anomalies if row.anomaly == "tls_alert"]
    assert [(row.sender, row.text) for row in alerts] == [("originator", text)]
    assert flow.tls_alerts == [text]


def test_a_client_that_refuses_with_an_encrypted_alert(parties: Parties, tmp_path: Path) -> None:
    """As Go's do, which encrypt before they look at the certificate."""
    sent = handshake(parties.dial(TLS_13, False), parties.serve(parties.server, TLS_13))
    answer = next(at for at, (sender, _) in enumerate(sent) if at and sender == CLIENT)
    sent[answer:] = [(CLIENT, b"\x14\x03\x03\0\1\1" + b"\x17\x03\x03\0\x13" + b"e" * 19)]
    flow, _, anomalies = rows(capture(tmp_path, sent, after_info=False))
    assert [(row.anomaly, row.text) for row in anomalies] == [("tls_alert", "encrypted alert")]
    assert flow.tls_alerts == ["encrypted alert"]


def test_early_data_is_named(parties: Parties, tmp_path: Path) -> None:
    sent = handshake(
        parties.dial(TLS_13, False), parties.serve(parties.server, TLS_13), CONVERSATION
    )
    hello = bytearray(sent[0][1])
    for start, grown in ((3, 2), (7, 2), (_extensions_at(hello), 2)):
        size = int.from_bytes(hello[start : start + grown], "big") + 4
        hello[start : start + grown] = size.to_bytes(grown, "big")
    hello += b"\0\x2a\0\0" + b"\x17\x03\x03\0\x20" + b"0" * 32
    flow, _, anomalies = rows(capture(tmp_path, [(CLIENT, bytes(hello)), *sent[1:]]))
    assert [(row.anomaly, row.sender) for row in anomalies] == [("tls_early_data", "originator")]
    assert flow.tls_version == "1.3"


def _extensions_at(hello: bytes | bytearray) -> int:
    """Where the size of the extensions is in the record of a ClientHello."""
    at = 5 + 4 + 2 + 32
    at += 1 + hello[at]
    at += 2 + int.from_bytes(hello[at : at + 2], "big")
    return at + 1 + hello[at]


def test_a_server_that_knows_no_common_version(parties: Parties, tmp_path: Path) -> None:
    sent = handshake(parties.dial(TLS_12), parties.serve(parties.server, TLS_13))
    flow, sessions, anomalies = rows(capture(tmp_path, sent, after_info=False))
    assert (flow.protocol, flow.tls_version, flow.tls_server_name) == ("tls", None, "localhost")
    assert [(row.sender, row.text) for row in anomalies] == [("responder", "protocol version")]
    assert not sessions


@pytest.mark.parametrize("after_info", [True, False])
def test_the_stages_of_spark_give_the_same_rows(
    parties: Parties, tmp_path: Path, after_info: bool
) -> None:
    client = parties.dial(TLS_12, verify=False)
    sent = handshake(client, parties.serve(parties.expired, TLS_12), CONVERSATION)
    path = capture(tmp_path, sent, after_info)
    for size in (900, 4_000):
        assert in_partitions([path], size) == in_one([path])


@pytest.mark.parametrize(
    "protocols, noted", [([], True), (["http/1.1"], True), (["h2", "http/1.1"], False)]
)
def test_tls_of_other_protocols_is_no_anomaly(protocols: list[str], noted: bool) -> None:
    """Nobody speaks NATS with HTTP/2 in ALPN. The columns of `flows` have the alert all the same."""
    handshake = Handshake(protocols=protocols)
    refuses = TlsTransform(Direction.RESPONDER, handshake, KeyLogs())
    found = refuses.feed(Chunk(1, 1, "t.pcap", 0, b"\x15\x03\x03\x00\x02\x02\x28"))
    assert [each.text for each in found if isinstance(each, Oddity)] == [
        "handshake failure"
    ] * noted
    assert handshake.facts["tls_alerts"] == ["handshake failure"]
