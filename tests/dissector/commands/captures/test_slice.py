"""`nats-dissect slice`: the packets of a session give the rows that the session has in the whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dissect.nats import FrameRecord, SessionRecord
from dissect.nats.capture import CaptureReport, read_packets
from dissect.nats.cli import cli

from tests.dissector.samples.rows import PLACES, Values, rows, values_of
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import (
    GRE,
    Conversation,
    Interface,
    Record,
    block,
    enhanced_packet,
    fragments,
    interface_block,
    ip,
    link,
    option,
    pcap_file,
    section,
    tcp,
)

CORE = CAPTURES / "core-2.15.1.pcap"
NAMES = sorted(path.name for path in CAPTURES.glob("*.pcap*"))
TABLES = ("sessions", "frames")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["slice", *map(str, arguments)])


def values_in(path: Path, session: str | None = None) -> list[list[Values]]:
    """Rows without the places of packets: of all sessions, or of one."""
    found = [
        row
        for row in rows([path], TABLES)
        if isinstance(row, (SessionRecord, FrameRecord)) and session in (None, row.session)
    ]
    return [values_of(found, table, PLACES) for table in (SessionRecord, FrameRecord)]


def sessions(path: Path) -> list[str]:
    return [row.session for row in rows([path], ["sessions"]) if isinstance(row, SessionRecord)]


@pytest.mark.parametrize("name", NAMES)
def test_a_slice_says_of_each_session_what_the_capture_says(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for session in sessions(CAPTURES / name):
        done = run("-o", out, session, CAPTURES / name)
        assert done.exit_code == 0, done.output
        assert done.stderr.startswith("nats-dissect: 1 session, ")
        assert done.stderr.endswith(f" in {out}\n")
        assert values_in(out) == values_in(CAPTURES / name, session)


def test_several_sessions_by_the_starts_of_their_ids(tmp_path: Path) -> None:
    one, two, *_ = sessions(CORE)
    done = run("-o", tmp_path / "out", one[:8], CORE, "--session", two.upper())
    assert done.exit_code == 0 and done.stderr.startswith("nats-dissect: 2 sessions, ")
    assert sorted(sessions(tmp_path / "out")) == sorted([one, two])


def test_a_condition_picks_sessions(tmp_path: Path) -> None:
    one, *others = sessions(CORE)
    done = run("-o", tmp_path / "out", "--where", f"session <> '{one}'", CORE)
    assert done.exit_code == 0
    assert sessions(tmp_path / "out") == others != []


def test_no_session_writes_no_file(tmp_path: Path) -> None:
    done = run("-o", tmp_path / "out", "--where", "kind = 'gateway'", CORE)
    assert done.exit_code == 0
    assert done.stderr == "nats-dissect: no session matches; nothing is written\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments, line",
    [
        (["ffff0000", str(CORE)], "no session ffff0000 in the captures; `sessions` lists them"),
        (["--session", "", str(CORE)], "sessions begin with"),
        (["ffff0000"], "no capture is named"),
        (["-"], "standard input cannot be read twice"),
        (["--where", "nothing = 1", str(CORE)], "SQL: "),
        (["nowhere.pcap"], "nowhere.pcap: no such file"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments: list[str], line: str, tmp_path: Path) -> None:
    done = run("-o", tmp_path / "out", *arguments)
    assert done.exit_code == 2
    assert line in done.stderr and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_input_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "in.pcap"
    path.write_bytes(CORE.read_bytes())
    assert run("-o", path, path).exit_code == 2
    assert path.read_bytes() == CORE.read_bytes()


def test_a_file_whose_name_is_hexadecimal_is_a_capture(tmp_path: Path) -> None:
    path = tmp_path / "cafe"
    path.write_bytes(CORE.read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert run("-o", "out", "cafe").exit_code == 0
    assert values_in(tmp_path / "out") == values_in(CORE)


def test_a_port_that_is_used_again_is_another_session(tmp_path: Path) -> None:
    first = (
        Conversation().handshake().from_client(b"PUB a 1\r\nx\r\nPING\r\n").from_server(b"PONG\r\n")
    )
    first.close()
    second = Conversation(isn=(900000, 700000), now_ns=first.now_ns + 10**9).handshake()
    second.from_client(b"PUB b 1\r\ny\r\nPING\r\n").from_server(b"PONG\r\n")
    whole = tmp_path / "whole.pcap"
    whole.write_bytes(pcap_file(first.records + second.records))
    found = sessions(whole)
    assert len(found) == 2
    for session, conversation in zip(found, (first, second)):
        assert run("-o", tmp_path / "out", session, whole).exit_code == 0
        assert (tmp_path / "out").read_bytes() == pcap_file(conversation.records)


def test_fragments_come_along(tmp_path: Path) -> None:
    conversation = (
        Conversation().handshake().from_client(b"PUB a 1\r\nx\r\nPING\r\n").from_server(b"PONG\r\n")
    )
    payload = b"PUB orders 64\r\n" + b"x" * 64 + b"\r\n"
    client, server = conversation.client, conversation.server
    segment = tcp((client[1], server[1]), 1019, 5007, 0x18, payload)
    for part in fragments(client[0], server[0], segment, 40):
        conversation.records.append(Record(conversation.now_ns, link(part)))
        conversation.now_ns += 1000
    other = Record(conversation.now_ns, link(ip("10.0.0.8", "10.0.0.9", b"no tcp", proto=17)))
    whole = tmp_path / "whole.pcap"
    whole.write_bytes(pcap_file([other, *conversation.records]))
    assert "PUB" in [row.op for row in rows([whole]) if isinstance(row, FrameRecord)]
    assert run("-o", tmp_path / "out", whole).exit_code == 0
    assert (tmp_path / "out").read_bytes() == pcap_file(conversation.records)


def test_comments_and_names_of_a_session_come_along(tmp_path: Path) -> None:
    wanted = (
        Conversation().handshake().from_client(b"PUB a 1\r\nx\r\nPING\r\n").from_server(b"PONG\r\n")
    )
    other = Conversation(("10.0.0.7", 40007), now_ns=wanted.now_ns).handshake()
    other.from_client(b"PUB b 1\r\ny\r\nPING\r\n").from_server(b"PONG\r\n")
    interface = Interface(tsresol=9)
    comment = option(1, b"look here") + option(0, b"")
    head = section() + interface_block(interface)
    head += block(4, bytes.fromhex("01000800") + b"\x0a\0\0\1a.b\0" + bytes(4))
    kept, rest = (
        b"".join(
            enhanced_packet(record, interface, "<", comment) for record in conversation.records
        )
        for conversation in (wanted, other)
    )
    whole = tmp_path / "whole.pcapng"
    whole.write_bytes(head + kept + rest)
    session, _ = sessions(whole)
    assert run("-o", tmp_path / "out", session, whole).exit_code == 0
    assert (tmp_path / "out").read_bytes() == head + kept
    assert values_in(tmp_path / "out") == values_in(whole, session)


def test_tunnels_whose_packets_are_fragmented_come_along(tmp_path: Path) -> None:
    conversation = Conversation(linktype=101).handshake().from_client(b"PUB a 1\r\nx\r\nPING\r\n")
    conversation.from_server(b"PONG\r\n")
    carried = [
        Record(record.ts_ns, part)
        for number, record in enumerate(conversation.records)
        for part in fragments(
            "192.0.2.1", "192.0.2.2", b"\0\0\x08\0" + record.data, 32, GRE, number
        )
    ]
    foreign = ip("192.0.2.1", "192.0.2.2", b"\0\0\x08\0" + b"x" * 60, GRE)
    whole = tmp_path / "whole.pcap"
    whole.write_bytes(pcap_file([*carried, Record(conversation.now_ns, foreign)], 101))
    assert len(sessions(whole)) == 1
    assert run("-o", tmp_path / "out", whole).exit_code == 0
    assert (tmp_path / "out").read_bytes() == pcap_file(carried, 101)


def test_a_damaged_capture_is_sliced_up_to_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(CORE.read_bytes()[:-5])
    done = run("-o", tmp_path / "out", path)
    assert done.exit_code == 3 and "cut short" in done.stderr
    assert values_in(tmp_path / "out") == values_in(path)


def test_two_taps_that_overlap_are_one_capture(tmp_path: Path) -> None:
    """Each tap has one direction, in pcapng with a time resolution of its own."""
    conversation = Conversation().handshake().from_server(b"INFO {}\r\n")
    conversation.from_client(b"CONNECT {}\r\nPUB a 1\r\nx\r\nPING\r\n").from_server(
        b"PONG\r\n"
    ).close()
    taps = tmp_path / "taps"
    taps.mkdir()
    for name, resolution, port in (
        ("a", 9, conversation.client[1]),
        ("b", 6, conversation.server[1]),
    ):
        interface = Interface(tsresol=resolution)
        own = [
            record
            for record in conversation.records
            if record.data[34:36] == port.to_bytes(2, "big")
        ]
        blocks = b"".join(enhanced_packet(record, interface) for record in own)
        (taps / name).write_bytes(section() + interface_block(interface) + blocks)
    (session,) = sessions(taps)
    done = run("-o", tmp_path / "out", session, taps)
    assert done.exit_code == 0, done.output
    assert f"{len(conversation.records)} packets of {len(conversation.records)} in" in done.stderr
    found = [packet.data for packet in read_packets([str(tmp_path / "out")], CaptureReport())]
    assert found == [record.data for record in conversation.records]


def test_there_is_no_option_to_mask_nothing_because_nothing_is_masked(tmp_path: Path) -> None:
    done = run("-o", tmp_path / "out", "--no-redact", CORE)
    assert done.exit_code == 2 and "--no-redact: packets are written as they are" in done.stderr
