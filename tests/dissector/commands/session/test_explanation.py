"""`sessions --explain`: the decisions about one connection, each with its packet, sender and offset."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dissect.nats.capture import CaptureReport
from dissect.nats.cli import cli
from dissect.nats.commands.session.detail import Unclear
from dissect.nats.commands.session.explanation import explanation
from dissect.nats.framing.trace import LOG
from dissect.nats.options import Options
from dissect.nats.pipeline import records
from dissect.nats.schema.records import FlowRecord

from tests.support.conversations import CONNECT, INFO
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import Conversation, Record, pcap_file

PUBS = b"PUB a 5\r\nhello\r\n" * 4
PROXY = b"PROXY TCP4 203.0.113.7 10.0.0.2 51000 4222\r\n"


def flow_of(path: Path, port: int | None = None) -> FlowRecord:
    flows = [row for row in records([str(path)], ["flows"]) if isinstance(row, FlowRecord)]
    return next(row for row in flows if port is None or row.responder.endswith(f":{port}"))


def explained(path: Path, port: int | None = None) -> list[str]:
    """The lines about the first connection to this port, without their first two."""
    flow = flow_of(path, port)
    lines = list(explanation([str(path)], flow.session, Options(), CaptureReport()))
    assert lines[0] == f"{flow.session} in {path.name}\n"
    assert re.search(" connection [0-9.]+:[0-9]+ > [0-9.]+:[0-9]+, TCP ", lines[1])
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    return [re.sub(r" +", " ", line.strip()) for line in lines[2:]]


def written(path: Path, packets: list[Record]) -> Path:
    path.write_bytes(pcap_file(packets))
    return path


def test_a_plain_client() -> None:
    assert explained(CAPTURES / "core-2.15.1.pcap")[:2] == [
        "packet 4 < 0 NATS: the responder begins with INFO",
        "packet 4 < 0 kind client: the first INFO",
    ]


def test_tls_after_info() -> None:
    lines = explained(CAPTURES / "tls-2.15.1.pcap", 4222)
    assert lines[2:6] == [
        "packet 6 > 0 layer tls begins: tls in place of a frame",
        "packet 8 < 373 layer tls begins: tls in place of a frame",
        "packet 9 > 517 opaque: the bytes of tls cannot be decoded",
        "packet 13 < 1257 opaque: the bytes of tls cannot be decoded",
    ]
    assert "transport tls" in lines[-1]


def test_the_beginning_of_a_websocket_layer_is_explained() -> None:
    lines = explained(CAPTURES / "websocket-2.15.1.pcap")
    assert lines[0] == "packet 6 < 0 layer websocket begins: the first bytes are those of websocket"
    assert lines[1] == "packet 8 < 0 NATS: the responder begins with INFO"
    assert lines[-1].startswith("after the last packet end: NATS from its handshake, kind client")


def test_a_proxy_header(tmp_path: Path) -> None:
    made = Conversation().handshake().from_client(PROXY).from_server(INFO).from_client(CONNECT)
    assert explained(written(tmp_path / "p.pcap", made.records)) == [
        "packet 4 > 0 layer proxy begins: the first bytes are those of proxy",
        "packet 4 > 0 handed on: no layer changes the bytes that follow",
        "packet 6 < 0 NATS: the responder begins with INFO",
        "packet 6 < 0 kind client: the first INFO",
        "after the last packet end: NATS from its handshake, kind client, transport tcp,"
        " originator frames 1, responder frames 1",
    ]


def test_a_leafnode_with_s2() -> None:
    lines = explained(CAPTURES / "leafnode-s2-2.15.1.pcap")
    assert lines[1:4] == [
        "packet 4 < 0 kind leafnode: the first INFO",
        "packet 27 < 413 layer s2 begins: s2 in place of a frame",
        "packet 28 > 161 layer s2 begins: s2 in place of a frame",
    ]
    assert "compression s2" in lines[-1]


def test_midstream_frames_prove_themselves() -> None:
    lines = explained(CAPTURES / "midstream.pcap")
    assert lines[0].startswith("packet 23 > 1420 NATS: frames prove themselves")
    assert lines[1:3] == [
        "packet 23 > 1420 kind client: operations HPUB PUB",
        "packet 23 > 1420 reading resumes, proven by 4 frames (HPUB PUB): they begin with a packet"
        " and end with one",
    ]
    assert "NATS without its handshake" in lines[-1]


def test_a_gap_and_where_reading_resumes() -> None:
    lines = explained(CAPTURES / "damaged-loss-reorder.pcap")
    assert lines[2:5] == [
        "packet 603 > 24931 gap: 840 bytes are lost",
        "packet 603 > 25771 no frame begins here: frames are searched",
        "packet 622 > 25771 reading resumes, proven by 8 frames (HPUB PING PUB): they begin with a"
        " packet and end with one",
    ]


def test_bytes_that_are_no_frame(tmp_path: Path) -> None:
    made = Conversation().handshake().from_server(INFO).from_client(CONNECT)
    made.from_client(b"PUB secret and more\r\n").from_client(PUBS)
    lines = explained(written(tmp_path / "p.pcap", made.records))
    start = len(CONNECT)
    assert lines[2:5] == [
        f"packet 8 > {start} rejected: the bytes are no frame of this kind of connection",
        f"packet 8 > {start} no frame begins here: frames are searched",
        f"packet 10 > {start + 21} reading resumes, proven by 4 frames (PUB): they begin with a"
        " packet and end with one",
    ]
    assert "secret" not in "".join(lines)


def test_a_connection_of_another_protocol_says_why() -> None:
    assert explained(CAPTURES / "http.pcap") == [
        "packet 6 < 0 rejected, no NATS: the responder does not begin with INFO",
        "after the last packet end: no NATS, protocol other",
    ]


def test_roles_that_were_taken_the_wrong_way_round(tmp_path: Path) -> None:
    made = Conversation().handshake().from_server(INFO).from_client(CONNECT)
    lines = explained(written(tmp_path / "p.pcap", made.records[3:]))
    assert lines[:2] == [
        "packet 1 > 0 roles swapped: the side that was seen first begins with INFO",
        "packet 1 < 0 NATS: the side that was seen first begins with INFO",
    ]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["sessions", *arguments, str(CAPTURES / "http.pcap")])


def test_the_command_prints_the_lines() -> None:
    session = flow_of(CAPTURES / "http.pcap").session
    whole, short = run("--explain", session), run("--explain", session[:6])
    assert whole.exit_code == 0 and whole.stdout == short.stdout
    assert whole.stdout.splitlines()[-1].split() == (
        "after the last packet end: no NATS, protocol other".split()
    )


def test_an_unknown_id_is_one_line_with_the_remedy() -> None:
    result = run("--explain", "00ff")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "nats-dissect: no connection 00ff in the captures; `flows` lists them"
        " (with --from, IDs differ: pass the same --from)\n"
    )


@pytest.mark.parametrize("option", ["--limit=1", "--session=00", "--format=csv", "--jobs=2"])
def test_options_of_rows_are_refused(option: str) -> None:
    result = run("--explain", "00", option)
    assert result.exit_code == 2 and "does not go with --explain" in result.stderr


def test_several_connections_are_named_and_the_logger_is_left_as_it_was() -> None:
    level, handlers = LOG.level, list(LOG.handlers)
    with pytest.raises(Unclear, match="^7 connections begin with"):
        list(explanation([str(CAPTURES / "core-2.15.1.pcap")], "", Options(), CaptureReport()))
    assert (LOG.level, LOG.handlers) == (level, handlers)
