"""Rows are the same with the kernel, in blocks of any size, and for everything that a sample has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dissect.nats.kernel.arrays import Arrays
from dissect.nats.kernel.driver import Driver
from dissect.nats.kernel.load import VARIABLE
from dissect.nats.kernel.state import Stop
from dissect.nats.pipeline import records
from natsync.protocol.streaming import MsgProto

from tests.dissector.fuzzing.harms import NAMES, sample
from tests.dissector.fuzzing.kernel import generated, written
from tests.dissector.kernel.both import KERNEL, kept_of
from tests.support.damage import Pcap, read_pcap
from tests.support.pcapwriter import (
    Conversation,
    Interface,
    Record,
    pcap_file,
    pcapng_file,
    with_checksum,
)

pytestmark = KERNEL


@pytest.mark.parametrize("block", [2000, 1 << 17])
def test_rows_of_samples_are_the_same(block: int, tmp_path: Path) -> None:
    kept = {name: kept_of(sample(name), tmp_path, block) for name in NAMES}
    assert sum(kept.values()) > 500


@pytest.mark.parametrize("number", range(4))
def test_rows_of_generated_traffic_are_the_same(number: int, tmp_path: Path) -> None:
    pcap = generated(number)
    kept = kept_of(pcap, tmp_path, 3000)
    assert kept > len(pcap.records) / 2, "the kernel keeps too little of plain traffic"
    assert Driver.rows_of.__doc__


def test_damaged_packets_are_left_to_python(tmp_path: Path) -> None:
    talk = Conversation().handshake()
    talk.from_server(b'INFO {"server_id":"NS","client_id":7} \r\n')
    talk.from_client(b'CONNECT {"lang":"go"}\r\n')
    for number in range(300):
        talk.from_client(b"PUB a %d\r\n" % number + bytes(number) + b"\r\n")
    plain = [with_checksum(record) for record in talk.records]
    at = next(at for at, record in enumerate(plain) if b"PUB a 200\r\n" in record.data)
    wrong = replace(plain[at], data=plain[at].data[:-9] + b"x" + plain[at].data[-8:])
    all_right = kept_of(pcap_of(plain), tmp_path, 4096)
    one_wrong = kept_of(pcap_of([*plain[:at], wrong, *plain[at:]]), tmp_path, 4096)
    assert 300 < one_wrong < all_right


def test_short_runs_are_left_to_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packets = [replace(each, interface=at & 1) for at, each in enumerate(written(generated(0)))]
    (tmp_path / "x").write_bytes(pcapng_file(packets, [Interface(), Interface()]))
    walks, walk = [], Arrays.walk

    def counted(arrays: Arrays) -> Stop:
        walks.append(walk(arrays))
        return walks[-1]

    monkeypatch.setattr(Arrays, "walk", counted)
    monkeypatch.setenv(VARIABLE, "on")
    assert list(records([str(tmp_path / "x")], ["sessions"]))
    assert 0 < len(walks) < len(packets) / 4


ERROR = b'{"type":"io.nats.jetstream.api.v1.x","error":{"code":404,"err_code":10059}}'
"""An answer of JetStream that reports an error."""


def test_the_payload_of_a_reply_that_reports_an_error_is_read(tmp_path: Path) -> None:
    usual = [b"x" * 3000, b'{"pad":"' + bytes(600) + b'"error"', b"{}", ERROR.ljust(20 << 10)]
    usual.append(b'{"items":[]}'.ljust(3000))
    errors = [ERROR, ERROR.ljust(3000)]
    talk = Conversation().handshake()
    talk.from_server(b'INFO {"server_id":"NS","client_id":7} \r\n')
    talk.from_client(b'CONNECT {"lang":"go"}\r\nSUB _INBOX.a.* 1\r\n')
    for number in range(400):
        body = usual[number % 5] if number % 80 else errors[number // 80 % 2]
        talk.from_client(b"PUB svc _INBOX.a.%d 2\r\nhi\r\n" % number)
        reply = b"MSG _INBOX.a.%d 1 %d\r\n%s\r\n" % (number, len(body), body)
        for size in ((1460,), (1460, 30), (len(reply),))[number % 3]:
            talk.from_server(reply[:size], 1 << 15)
            reply = reply[size:]
        talk.from_server(reply)
    kept = kept_of(pcap_of(talk.records), tmp_path, tables=("sessions", "requests"))
    assert kept > 200
    outcomes = [row.outcome for row in records([str(tmp_path / "case.pcap")], ["requests"])]
    assert outcomes.count("api_error") == 5


OF_LAYERS = ("frames", "sessions", "requests", "publishes", "api", "deliveries", "kv", "streaming")


@pytest.mark.parametrize("tables", [OF_LAYERS, (*OF_LAYERS, "services", "paths")])
@pytest.mark.parametrize("number", range(4))
def test_rows_of_layers_are_the_same(number: int, tables: tuple[str, ...], tmp_path: Path) -> None:
    pcap = generated(number)
    kept = kept_of(pcap, tmp_path, 3000, tables)
    assert kept > len(pcap.records) / 3, "the kernel keeps too little of plain traffic"


def test_layers_get_what_they_read_however_it_is_cut(tmp_path: Path) -> None:
    talk = Conversation().handshake()
    talk.from_server(b'INFO {"server_id":"NS","client_id":7,"max_payload":100000} \r\n')
    talk.from_client(b'CONNECT {"lang":"go"}\r\nSUB _INBOX.a.* 1\r\nSUB news 2\r\n')
    for number in range(200):
        talk.from_server(b"MSG news 2 3\r\nabc\r\n" * 3)
        talk.from_client(b"PUB $JS.API.STREAM.INFO.s%d _INBOX.a.%d 0\r\n\r\n" % (number, number))
        size = 40_000 if number == 150 else (20, 600, 9000)[number % 3]
        body = (b'{"type":"io.nats.x","config":{"name":"s%d"}}' % number).ljust(size)
        reply = b"MSG _INBOX.a.%d 1 %d\r\n%s\r\n" % (number, len(body), body)
        for at in range(0, len(reply), 1460):
            talk.from_server(reply[at : at + 1460])
    kept = kept_of(pcap_of(talk.records), tmp_path, 4096, ("sessions", "api"))
    assert kept > 300
    rows = list(records([str(tmp_path / "case.pcap")], ["api"]))
    assert len(rows) == 200 and all('"config"' in row.response for row in rows)


def test_rows_of_a_packet_of_which_python_adds_a_frame_come_together(tmp_path: Path) -> None:
    talk = Conversation().handshake()
    talk.from_server(b'INFO {"server_id":"NS","client_id":7,"max_payload":100000} \r\n')
    talk.from_client(b'CONNECT {"lang":"go"}\r\nSUB news 1\r\n')
    for number in range(100):
        inbox = b"_INBOX.%d" % number
        asks = b"PUB news 1\r\nx\r\nPUB $JS.API.STREAM.INFO.s %b 0\r\n\r\n" % inbox
        subscribes = b"SUB %b %d\r\nUNSUB %d 1\r\n" % (inbox, number + 2, number + 2)
        talk.from_client(subscribes + asks if number % 3 else asks + subscribes + b"PING\r\n")
        answer = b'{"type":"io.nats.x"}'
        talk.from_server(b"MSG %b %d %d\r\n%b\r\n" % (inbox, number + 2, len(answer), answer))
    for tables in (OF_LAYERS, OF_LAYERS[1:]):
        assert kept_of(pcap_of(talk.records), tmp_path, 4096, tables) > 150


def test_a_connection_that_shows_nats_streaming_is_pythons(tmp_path: Path) -> None:
    talk = Conversation().handshake()
    talk.from_server(b'INFO {"server_id":"NS","client_id":7} \r\n')
    talk.from_client(b'CONNECT {"lang":"go"}\r\nSUB _INBOX.a 1\r\nSUB news 2\r\n')
    for number in range(300):
        talk.from_server(b"MSG news 2 3\r\nabc\r\n" * 3)
        if number > 200:
            message = MsgProto(number, "orders", data=b"x", timestamp=17 * 10**17).to_bytes()
            frame = b"MSG _INBOX.a 1 %d\r\n%s\r\n" % (len(message), message)
            talk.from_server(frame + b"MSG news 2 1\r\n\x08\r\n" * (number % 2))
    kept = kept_of(pcap_of(talk.records), tmp_path, 2000, ("sessions", "streaming"))
    assert 100 < kept < 400
    assert len(list(records([str(tmp_path / "case.pcap")], ["streaming"]))) == 99


def pcap_of(packets: list[Record]) -> Pcap:
    return read_pcap(pcap_file(packets))
