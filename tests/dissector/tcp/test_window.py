"""Receive windows: how often and for how long a receiver stopped its sender, and who ended it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats import flows, sessions
from dissect.nats.schema.records import FlowRecord
from dissect.nats.tcp.flow import UNKNOWN
from dissect.nats.tcp.flow_table import FlowTable
from dissect.nats.tcp.reassembly import Stream
from dissect.nats.tcp.window import fills_window, gave_up_on, may_fill_window
from dissect.nats.types import Direction

from tests.support.paths import CAPTURES
from tests.support.pcapwriter import STEP_NS, Talk, pcap_file
from tests.support.segments import segments_of
from tests.support.tcp_conversation import ACK, FIN, PSH, RST, SYN

SECOND = 10**9
_SCALE_7, _NO_OPTION = b"\1\3\3\7", b""
_INFO = b'INFO {"server_id":"NA","version":"2.10.0","max_payload":1000}\r\n'
_CONNECT = b'CONNECT {"verbose":false,"lang":"go","version":"1"}\r\nPING\r\n'


def opened(client: bytes = _SCALE_7, server: bytes = _SCALE_7) -> Talk:
    """A connection whose SYNs have these options; then the client's window is 10 units."""
    talk = Talk()
    talk.syn_options = {talk.client: client, talk.server: server}
    talk.handshake()
    talk.windows[talk.client] = 10
    talk.packet(talk.client, ACK)
    return talk


def row(talk: Talk, folder: Path) -> FlowRecord:
    path = folder / "windows.pcap"
    path.write_bytes(pcap_file(talk.records))
    (found,) = flows(path)
    assert isinstance(found, FlowRecord)
    return found


def stop(talk: Talk, packets: int = 1) -> None:
    """The client says that its window is closed."""
    talk.windows[talk.client] = 0
    for _ in range(packets):
        talk.packet(talk.client, ACK)


def go_on(talk: Talk) -> None:
    talk.windows[talk.client] = 10
    talk.packet(talk.client, ACK)


def test_a_sample_has_the_windows_that_wireshark_sees() -> None:
    """As `tshark -Y 'tcp.analysis.zero_window || tcp.analysis.window_full'` says, 4.0.17."""
    found = {row.originator: row for row in flows(CAPTURES / "slow-2.15.1.pcap")}
    slow = found.pop("127.0.0.1:35822")
    assert isinstance(slow, FlowRecord)
    assert (slow.zero_windows_originator, slow.zero_windows_responder) == (3, 0)
    assert (slow.window_full_originator, slow.window_full_responder) == (0, 1)
    assert (slow.zero_window_ns_originator, slow.zero_window_ns_responder) == (1_909_429_000, 0)
    for other in found.values():
        assert isinstance(other, FlowRecord)
        assert not other.zero_windows_originator + other.zero_windows_responder
        assert not other.window_full_originator + other.window_full_responder


def test_zero_windows_add_up(tmp_path: Path) -> None:
    talk = opened()
    stop(talk, 3)  # closed for 3 steps: until the packet that opens it
    go_on(talk)
    stop(talk)
    talk.from_server(b"x" * 100)  # probes; the client's acknowledgement repeats that it is closed
    go_on(talk)
    found = row(talk, tmp_path)
    assert (found.zero_windows_originator, found.zero_windows_responder) == (5, 0)
    assert found.zero_window_ns_originator == 6 * STEP_NS


def test_a_window_that_never_opens_is_closed_to_the_end(tmp_path: Path) -> None:
    talk = opened()
    stop(talk)
    talk.now_ns += SECOND
    talk.packet(talk.server, ACK)
    found = row(talk, tmp_path)
    assert found.end == "open"
    assert found.zero_window_ns_originator == found.last_ns - talk.records[4].ts_ns


@pytest.mark.parametrize("flags", [SYN, RST, RST | ACK, FIN | ACK])
def test_the_first_and_last_packets_close_no_window(tmp_path: Path, flags: int) -> None:
    talk = opened()
    talk.windows[talk.client] = 0
    if flags & SYN:
        talk.next[talk.client] = 1000  # repeated
    talk.packet(talk.client, flags)
    assert row(talk, tmp_path).zero_windows_originator == 0


@pytest.mark.parametrize(
    ("client", "server", "unit"),
    [
        (_SCALE_7, _SCALE_7, 128),
        (_SCALE_7, _NO_OPTION, 1),  # only where both offer it
        (_NO_OPTION, _SCALE_7, 1),
        (b"\1\3\3\0", _SCALE_7, 1),
    ],
)
def test_a_segment_fills_the_window_up_to_its_last_byte(
    tmp_path: Path, client: bytes, server: bytes, unit: int
) -> None:
    for size, full in (10 * unit - 1, 0), (10 * unit, 1), (10 * unit + 1, 0):
        talk = opened(client, server)
        talk.packet(talk.server, PSH | ACK, b"x" * 4)
        talk.packet(talk.server, PSH | ACK, b"x" * (size - 4))
        found = row(talk, tmp_path)
        assert (found.window_full_originator, found.window_full_responder) == (0, full)


def test_the_window_of_a_syn_is_not_scaled(tmp_path: Path) -> None:
    talk = Talk()
    talk.windows[talk.server] = 500
    talk.syn_options = dict.fromkeys(talk.windows, _SCALE_7)
    talk.handshake()
    talk.packet(talk.client, PSH | ACK, b"x" * 500)
    assert row(talk, tmp_path).window_full_originator == 1


def test_nothing_is_known_of_windows_without_a_syn(tmp_path: Path) -> None:
    talk = opened()
    del talk.records[:2]
    talk.from_server(b"x" * 10).from_server(b"x" * 1280)
    stop(talk)
    talk.next[talk.server] -= 1280
    talk.packet(talk.server, PSH | ACK, b"x" * 1280)  # again, and all of it was acknowledged
    found = row(talk, tmp_path)
    assert found.window_full_responder == 0
    assert found.zero_windows_originator == 1  # no scale makes more of nothing


def test_a_repeated_segment_fills_the_window_again(tmp_path: Path) -> None:
    talk = opened()
    for _ in range(2):
        talk.packet(talk.server, PSH | ACK, b"x" * 1280)
        talk.next[talk.server] -= 1280
    assert row(talk, tmp_path).window_full_responder == 2


def test_windows_wrap_with_sequence_numbers(tmp_path: Path) -> None:
    talk = Talk(isn=(1000, 2**32 - 700))
    talk.syn_options = dict.fromkeys(talk.windows, _SCALE_7)
    talk.handshake()
    go_on(talk)
    talk.packet(talk.server, PSH | ACK, b"x" * 640)
    talk.packet(talk.server, PSH | ACK, b"x" * 640)
    assert row(talk, tmp_path).window_full_responder == 1


def state_of(talk: Talk) -> FlowTable:
    table = FlowTable(Stream)
    for segment in segments_of(talk.records):
        table.add(segment)
    return table


def test_what_may_fill_a_window() -> None:
    ((flow, _),) = state_of(opened()).deadlines().items()
    server = flow.side(Direction.RESPONDER)
    assert not may_fill_window(server, 5001, 1279)
    assert may_fill_window(server, 5001, 1280)
    assert may_fill_window(server, 5001, 9999)
    assert not may_fill_window(server, 5001 + 1280, 9999)  # it is beyond
    assert not may_fill_window(server, 5001, 0)
    server.window_unit = UNKNOWN
    assert not may_fill_window(server, 5001, 9999)
    server.stream.ack = None
    assert not may_fill_window(server, 5001, 9999)
    (segment,) = segments_of(Talk().from_server(b"x").records[:1])
    assert not fills_window(server, segment)


def ended(closed_ns: int, then_ns: int, by: str, flags: int = FIN | ACK) -> Talk:
    """The client stops the server for so long, and after another while somebody ends it."""
    talk = opened()
    talk.from_server(_INFO).from_client(_CONNECT).from_server(b"PONG\r\n")
    stop(talk)
    talk.now_ns += closed_ns - STEP_NS
    if then_ns:
        go_on(talk)
        talk.now_ns += then_ns - STEP_NS
    talk.packet(talk.server if by == "server" else talk.client, flags)
    return talk


@pytest.mark.parametrize(
    ("talk", "verdict"),
    [
        (ended(SECOND, 0, "server"), "stalled"),
        (ended(SECOND, 0, "server", RST), "stalled"),
        (ended(SECOND, SECOND, "server"), "stalled"),
        (ended(SECOND, 11 * SECOND, "server"), None),
        (ended(SECOND // 10, 0, "server"), None),
        (ended(SECOND, 0, "client"), None),
    ],
    ids=["closed", "reset", "soon", "late", "short", "client"],
)
def test_slow_consumers(tmp_path: Path, talk: Talk, verdict: str | None) -> None:
    path = tmp_path / "slow.pcap"
    path.write_bytes(pcap_file(talk.records))
    assert [row.slow_consumer for row in sessions(path)] == [verdict]


@pytest.mark.parametrize(
    ("text", "verdict"), [("Slow Consumer", "error"), ("Stale Connection", None)]
)
def test_the_words_of_the_server_decide(tmp_path: Path, text: str, verdict: str | None) -> None:
    talk = opened()
    talk.from_server(_INFO).from_client(_CONNECT).from_server(b"PONG\r\n")
    stop(talk)
    talk.now_ns += SECOND
    talk.from_server(f"-ERR '{text}'\r\n".encode())
    talk.packet(talk.server, FIN | ACK)
    path = tmp_path / "slow.pcap"
    path.write_bytes(pcap_file(talk.records))
    assert [row.slow_consumer for row in sessions(path)] == [verdict]


def test_a_slow_server_is_no_slow_consumer(tmp_path: Path) -> None:
    talk = opened()
    talk.from_server(_INFO).from_client(_CONNECT).from_server(b"PONG\r\n")
    talk.windows[talk.server] = 0
    talk.packet(talk.server, ACK)
    talk.now_ns += SECOND
    talk.packet(talk.client, FIN | ACK)
    path = tmp_path / "slow.pcap"
    path.write_bytes(pcap_file(talk.records))
    assert [row.slow_consumer for row in sessions(path)] == [None]


def test_a_flow_that_nobody_ended_was_given_up_by_nobody() -> None:
    ((flow, _),) = state_of(ended(SECOND, 0, "server")).deadlines().items()
    for side in flow.sides:
        side.stopped_ns = flow.last_ns
    assert gave_up_on(flow) is Direction.ORIGINATOR
    flow.ended_ns = None
    assert gave_up_on(flow) is None
