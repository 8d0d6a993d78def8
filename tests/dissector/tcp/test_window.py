"""Receive windows: how often and for how long a receiver stopped its sender, and who ended it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats import flows, sessions
from dissect.nats.schema.records import FlowRecord
from dissect.nats.tcp.flow import UNKNOWN
from dissect.nats.tcp.flow_table import FlowTable
from dissect.nats.tcp.reassembly import Stream
from dissect.nats.tcp.window import fills_window, may_fill_window, stalled_side
from dissect.nats.types import Direction

from tests.support.paths import CAPTURES
from tests.support.pcapwriter import STEP_NS, Conversation, pcap_file
from tests.support.segments import segments_of
from tests.support.tcp_conversation import ACK, FIN, PSH, RST, SYN

SECOND = 10**9
_SCALE_7, _NO_OPTION = b"\1\3\3\7", b""
_INFO = b'INFO {"server_id":"NA","version":"2.10.0","max_payload":1000}\r\n'
_CONNECT = b'CONNECT {"verbose":false,"lang":"go","version":"1"}\r\nPING\r\n'


def opened(client: bytes = _SCALE_7, server: bytes = _SCALE_7) -> Conversation:
    """A connection whose SYNs have these options; then the client's window is 10 units."""
    conversation = Conversation()
    conversation.syn_options = {conversation.client: client, conversation.server: server}
    conversation.handshake()
    conversation.windows[conversation.client] = 10
    conversation.packet(conversation.client, ACK)
    return conversation


def row(conversation: Conversation, folder: Path) -> FlowRecord:
    path = folder / "windows.pcap"
    path.write_bytes(pcap_file(conversation.records))
    (found,) = flows(path)
    assert isinstance(found, FlowRecord)
    return found


def stop(conversation: Conversation, packets: int = 1) -> None:
    """The client says that its window is closed."""
    conversation.windows[conversation.client] = 0
    for _ in range(packets):
        conversation.packet(conversation.client, ACK)


def go_on(conversation: Conversation) -> None:
    conversation.windows[conversation.client] = 10
    conversation.packet(conversation.client, ACK)


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
    conversation = opened()
    stop(conversation, 3)  # closed for 3 steps: until the packet that opens it
    go_on(conversation)
    stop(conversation)
    conversation.from_server(
        b"x" * 100
    )  # probes; the client's acknowledgement repeats that it is closed
    go_on(conversation)
    found = row(conversation, tmp_path)
    assert (found.zero_windows_originator, found.zero_windows_responder) == (5, 0)
    assert found.zero_window_ns_originator == 6 * STEP_NS


def test_a_window_that_never_opens_is_closed_to_the_end(tmp_path: Path) -> None:
    conversation = opened()
    stop(conversation)
    conversation.now_ns += SECOND
    conversation.packet(conversation.server, ACK)
    found = row(conversation, tmp_path)
    assert found.end == "open"
    assert found.zero_window_ns_originator == found.last_ns - conversation.records[4].ts_ns


@pytest.mark.parametrize("flags", [SYN, RST, RST | ACK, FIN | ACK])
def test_the_first_and_last_packets_close_no_window(tmp_path: Path, flags: int) -> None:
    conversation = opened()
    conversation.windows[conversation.client] = 0
    if flags & SYN:
        conversation.next[conversation.client] = 1000  # repeated
    conversation.packet(conversation.client, flags)
    assert row(conversation, tmp_path).zero_windows_originator == 0


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
        conversation = opened(client, server)
        conversation.packet(conversation.server, PSH | ACK, b"x" * 4)
        conversation.packet(conversation.server, PSH | ACK, b"x" * (size - 4))
        found = row(conversation, tmp_path)
        assert (found.window_full_originator, found.window_full_responder) == (0, full)


def test_the_window_of_a_syn_is_not_scaled(tmp_path: Path) -> None:
    conversation = Conversation()
    conversation.windows[conversation.server] = 500
    conversation.syn_options = dict.fromkeys(conversation.windows, _SCALE_7)
    conversation.handshake()
    conversation.packet(conversation.client, PSH | ACK, b"x" * 500)
    assert row(conversation, tmp_path).window_full_originator == 1


def test_nothing_is_known_of_windows_without_a_syn(tmp_path: Path) -> None:
    conversation = opened()
    del conversation.records[:2]
    conversation.from_server(b"x" * 10).from_server(b"x" * 1280)
    stop(conversation)
    conversation.next[conversation.server] -= 1280
    conversation.packet(
        conversation.server, PSH | ACK, b"x" * 1280
    )  # again, and all of it was acknowledged
    found = row(conversation, tmp_path)
    assert found.window_full_responder == 0
    assert found.zero_windows_originator == 1  # no scale makes more of nothing


def test_a_repeated_segment_fills_the_window_again(tmp_path: Path) -> None:
    conversation = opened()
    for _ in range(2):
        conversation.packet(conversation.server, PSH | ACK, b"x" * 1280)
        conversation.next[conversation.server] -= 1280
    assert row(conversation, tmp_path).window_full_responder == 2


def test_windows_wrap_with_sequence_numbers(tmp_path: Path) -> None:
    conversation = Conversation(isn=(1000, 2**32 - 700))
    conversation.syn_options = dict.fromkeys(conversation.windows, _SCALE_7)
    conversation.handshake()
    go_on(conversation)
    conversation.packet(conversation.server, PSH | ACK, b"x" * 640)
    conversation.packet(conversation.server, PSH | ACK, b"x" * 640)
    assert row(conversation, tmp_path).window_full_responder == 1


def state_of(conversation: Conversation) -> FlowTable:
    table = FlowTable(Stream)
    for segment in segments_of(conversation.records):
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
    (segment,) = segments_of(Conversation().from_server(b"x").records[:1])
    assert not fills_window(server, segment)


def ended(closed_ns: int, then_ns: int, by: str, flags: int = FIN | ACK) -> Conversation:
    """The client stops the server for so long, and after another while somebody ends it."""
    conversation = opened()
    conversation.from_server(_INFO).from_client(_CONNECT).from_server(b"PONG\r\n")
    stop(conversation)
    conversation.now_ns += closed_ns - STEP_NS
    if then_ns:
        go_on(conversation)
        conversation.now_ns += then_ns - STEP_NS
    conversation.packet(conversation.server if by == "server" else conversation.client, flags)
    return conversation


@pytest.mark.parametrize(
    ("conversation", "verdict"),
    [
        (ended(SECOND, 0, "server"), "stalled"),
        (ended(SECOND, 0, "server", RST), "stalled"),
        (ended(SECOND, SECOND, "server"), "stalled"),
        (ended(SECOND, 11 * SECOND, "server"), None),
        (ended(SECOND // 10, 0, "server"), None),
        (ended(SECOND, 0, "client"), None),
        (ended(SECOND, 0, "client", RST), "stalled"),
        (ended(SECOND, SECOND, "client", RST), None),
        (ended(SECOND // 10, 0, "client", RST), None),
        (ended(3 * SECOND, 0, "client", ACK), "stalled"),
        (ended(3 * SECOND, 0, "server", ACK), "stalled"),
        (ended(SECOND, 0, "client", ACK), None),
        (ended(3 * SECOND, SECOND, "client", ACK), None),
    ],
    ids=[
        *("closed", "reset", "soon", "late", "short", "client", "killed", "killed later"),
        *("killed soon", "hangs", "probed", "busy", "reads again"),
    ],
)
def test_the_verdict_on_a_slow_consumer_needs_a_long_stop_that_ends_the_connection(
    tmp_path: Path, conversation: Conversation, verdict: str | None
) -> None:
    path = tmp_path / "slow.pcap"
    path.write_bytes(pcap_file(conversation.records))
    assert [row.slow_consumer for row in sessions(path)] == [verdict]


@pytest.mark.parametrize(
    ("text", "verdict"), [("Slow Consumer", "error"), ("Stale Connection", None)]
)
def test_the_words_of_the_server_decide(tmp_path: Path, text: str, verdict: str | None) -> None:
    conversation = opened()
    conversation.from_server(_INFO).from_client(_CONNECT).from_server(b"PONG\r\n")
    stop(conversation)
    conversation.now_ns += SECOND
    conversation.from_server(f"-ERR '{text}'\r\n".encode())
    conversation.packet(conversation.server, FIN | ACK)
    path = tmp_path / "slow.pcap"
    path.write_bytes(pcap_file(conversation.records))
    assert [row.slow_consumer for row in sessions(path)] == [verdict]


def test_a_slow_server_is_no_slow_consumer(tmp_path: Path) -> None:
    conversation = opened()
    conversation.from_server(_INFO).from_client(_CONNECT).from_server(b"PONG\r\n")
    conversation.windows[conversation.server] = 0
    conversation.packet(conversation.server, ACK)
    conversation.now_ns += SECOND
    conversation.packet(conversation.client, FIN | ACK)
    path = tmp_path / "slow.pcap"
    path.write_bytes(pcap_file(conversation.records))
    assert [row.slow_consumer for row in sessions(path)] == [None]


def test_a_flow_that_nobody_ended_was_given_up_by_nobody() -> None:
    ((flow, _),) = state_of(ended(SECOND, 0, "server")).deadlines().items()
    for side in flow.sides:
        side.stopped_ns = flow.last_ns
    assert stalled_side(flow) is flow.side(Direction.ORIGINATOR)
    flow.ended_ns = None
    assert stalled_side(flow) is None
