"""What is in captures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from dissect.nats import CaptureReport, Options
from dissect.nats.capture.report import FileReport, InterfaceReport
from dissect.nats.commands.captures.info import (
    CaptureTraffic,
    file_facts,
    info_text,
    json_text,
    traffic,
)

from tests.support.damage import pcap_bytes, read_pcap
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import RAW, pcap_file
from tests.support.tenants import said, together


def test_facts_of_files_and_of_all() -> None:
    report = CaptureReport()
    names = ["core-2.15.1.pcap", "http.pcap", "snap96.pcap"]
    found = traffic([str(CAPTURES / name) for name in names], Options(), report)
    *files, total = (json.loads(line) for line in json_text(report, found))
    assert sorted(Path(facts["file"]).name for facts in files) == names
    core = next(facts for facts in files if "core" in facts["file"])
    assert (core["packets"], core["cut_packets"]) == (268, 0)
    assert core["linktypes"] == {"ETHERNET": 268}
    assert total["files"] == 3
    assert total["packets"] == sum(facts["packets"] for facts in files)
    assert total["flows"]["other"] >= 1 and total["sessions"]["client"] >= 7
    assert total["messages"] >= 111
    assert total["anomaly_bytes"]["truncated"] == total["missing_bytes"] > 0


def test_packets_outside_of_a_range_of_time_are_not_counted() -> None:
    options = Options(from_time="0.001", until_time="0.008")
    report = CaptureReport()
    found = traffic([str(CAPTURES / "snap96.pcap")], options, report)
    first, total = (json.loads(line) for line in json_text(report, found))
    assert 0 < total["packets"] < first["packets"]
    assert 0 < total["cut_packets"] < first["cut_packets"]
    assert total["captured_bytes"] < total["wire_bytes"] < first["wire_bytes"]
    assert first["first_ns"] < total["first_ns"] < total["last_ns"] < first["last_ns"]
    assert ", in the range of time\n" in "".join(info_text(report, found))


def test_link_types_with_the_same_name_are_counted_together() -> None:
    """A pcapng file may have an interface with each number of RAW."""
    file = FileReport("a.pcapng", "a.pcapng")
    file.linktypes.update({101: 5, 1: 4, 12: 3})
    assert file_facts(file)["linktypes"] == {"RAW": 8, "ETHERNET": 4}


def test_what_no_tcp_is_is_counted() -> None:
    found = CaptureTraffic()
    found.no_tcp.update({"udp": 3, "arp": 1})
    text = "".join(info_text(CaptureReport(), found))
    assert "  no TCP              udp 3, arp 1\n" in text
    assert "  TCP connections     none\n" in text and "  NATS sessions       none\n" in text


def test_connections_of_which_one_direction_was_captured_are_counted(tmp_path: Path) -> None:
    """A tap or a mirror port may have one direction of the cable only, which is not counted as missing."""
    both = read_pcap((CAPTURES / "core-2.15.1.pcap").read_bytes())
    sent = [each for each in both.records if each.data[34:36] > each.data[36:38]]  # ports
    path = tmp_path / "sent.pcap"
    path.write_bytes(pcap_bytes(both.with_records(sent)))
    found = traffic([str(path)], Options(), report := CaptureReport())
    *_, total = (json.loads(line) for line in json_text(report, found))
    assert total["one_way_flows"] == total["sessions"]["client"] == 7
    assert "one direction       7 TCP connections lack" in "".join(info_text(report, found))


def test_long_names_of_anomalies_stay_apart_from_their_numbers() -> None:
    found = CaptureTraffic()
    found.anomalies.update(max_payload_exceeded=3, lost=2)
    lines = [line for line in info_text(CaptureReport(), found)][-1].splitlines()
    assert "  ! max_payload_exceeded  3" in lines
    assert "  ! lost                  2" in lines


def test_what_is_lost_and_damaged_is_reported() -> None:
    file = FileReport("a\x1b.pcapng", "a", format="pcapng", packets=2, captured_bytes=80)
    file.wire_bytes, file.cut_packets = 2000, 1
    file.interfaces.append(InterfaceReport(1, 96, "eth0", system_drops=7))
    file.first_ns, file.last_ns = 0, 10**9
    file.snaplens[96] = 2
    file.broken = "the file ends early"
    report = CaptureReport([file], passed_over=["notes.txt"], unreadable=["b.pcap"])
    found = CaptureTraffic(missing_bytes=1448)
    found.anomalies["lost"] = 1
    found.anomaly_bytes["lost"] = 1448
    text = "".join(info_text(report, found))
    for line in (
        "a\\x1b.pcapng\n",
        "packets             2 (80 B of 2.00 kB)\n",
        "(1.00 s)\n",
        "snap length         96\n",
        "cut packets         1 by the snap length\n",
        "interfaces          eth0\n",
        "dropped             7 packets, says the capture program\n",
        "damage              the file ends early\n",
        "missing             1.45 kB\n",
        "! lost              1 (1.45 kB)\n",
        "not captures        1\n",
        "not readable        1\n",
    ):
        assert line in text, line
    assert file_facts(file)["dropped_packets"] == 7


def test_names_that_are_no_utf_8() -> None:
    report = CaptureReport([FileReport("\udcff", "\\xff")], passed_over=["\udcfe: no capture"])
    lines = [json.loads(line) for line in json_text(report, CaptureTraffic())]
    assert lines[0]["file"] == "\\xff" and lines[1]["no_captures"] == ["\\xfe: no capture"]


def test_a_file_without_packets() -> None:
    text = "".join(
        info_text(CaptureReport([FileReport("a", "a", format="pcap")]), CaptureTraffic())
    )
    assert "packets             0 (0 B)\n" in text and "time" not in text


def test_packets_that_came_twice_are_said(tmp_path: Path) -> None:
    path = tmp_path / "doubled.pcap"
    packets = said(b"a", (1000, 5000))
    copies = [replace(each, ts_ns=each.ts_ns + 4_000) for each in packets]
    path.write_bytes(pcap_file(together(packets, copies), RAW))
    report = CaptureReport()
    found = traffic([str(path)], Options(), report)
    text = "".join(info_text(report, found))
    assert "packets were captured more than once" in text
    facts = json.loads(list(json_text(report, found))[-1])
    assert facts["doubled"] is True and facts["duplicate_bytes"] > 0
