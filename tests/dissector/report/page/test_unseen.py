"""What was not seen is reported: losses, cut packets, TLS, damage, limits, what the report leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dissect.nats.application.jetstream.consumers import ConsumerRecord
from dissect.nats.application.jetstream.streams import StreamRecord
from dissect.nats.application.services import ServiceRecord
from dissect.nats.capture import CaptureReport
from dissect.nats.options import Options
from dissect.nats.pipeline import records
from dissect.nats.questions.ask import tables_read
from dissect.nats.report.answers import QUESTIONS
from dissect.nats.report.page.unseen import unseen
from dissect.nats.schema.records import Record, RequestRecord

from tests.support.audit import session
from tests.support.damage import pcap_bytes, read_pcap
from tests.support.paths import CAPTURES
from tests.support.report import answers


def of(path: Path, options: Options = Options()) -> str:
    report = CaptureReport()
    found = answers(records([str(path)], tables_read(QUESTIONS), options, report))
    return "\n".join(f"{item.what} {item.remedy}" for item in unseen(found, report))


@pytest.mark.parametrize(
    "name, expected",
    [
        ("snap96.pcap", "packets of 133 were cut off by the snap length. Capture with -s 0."),
        ("damaged-loss-reorder.pcap", "were sent, but are not in the captures."),
        ("tls-2.15.1.pcap", "could not be decrypted. Give the secrets with --keylog FILE."),
        ("midstream.pcap", "began before the captures"),
        ("http.pcap", "carry no NATS."),
        ("core-2.15.1.pcap", "1 session goes on after the captures end."),
    ],
)
def test_what_captures_lack(name: str, expected: str) -> None:
    assert expected in of(CAPTURES / name)


def test_a_capture_of_one_direction(tmp_path: Path) -> None:
    both = read_pcap((CAPTURES / "core-2.15.1.pcap").read_bytes())
    sent = [each for each in both.records if each.data[34:36] > each.data[36:38]]  # ports
    path = tmp_path / "sent.pcap"
    path.write_bytes(pcap_bytes(both.with_records(sent)))
    assert "7 sessions lack all packets of one side, which are not counted as missing." in of(path)


def test_a_damaged_capture(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes((CAPTURES / "core-2.15.1.pcap").read_bytes()[:5000])
    assert "cut.pcap: " in of(path) and "everything before it was read" in of(path)


def test_limits_that_were_hit() -> None:
    few = Options(max_flows=2)
    assert "A limit of the dissection was hit: evicted" in of(CAPTURES / "auth-2.15.1.pcap", few)


def test_what_the_report_leaves_out() -> None:
    assert "Paths are drawn for 300 of 342 messages" in of(CAPTURES / "bulk-2.15.1.pcap")


def test_rows_that_the_report_leaves_out() -> None:
    rows: list[Record] = []
    for number in range(201):
        place: Any = {"session": "s", "number": number, "ts_ns": 1, "last_ns": 1, "kind": "client"}
        name = f"s{number}"
        rows.append(ServiceRecord(**place, side="client", subject="a"))
        if number < 101:
            rows.append(StreamRecord(**place, stream=name))
            rows.append(ConsumerRecord(**place, stream=name, consumer="c"))
            rows.append(session(client_name=name))
            rows.append(
                RequestRecord(session="s", subject=name, reply="r", sent_ns=1, request_bytes=0)
            )
    text = "\n".join(item.what for item in unseen(answers(rows), CaptureReport()))
    for what in ("streams", "consumers", "talkers", "subjects of requests"):
        assert f"Only 100 of 101 {what} have a row here" in text
    assert "Only 200 of 201 endpoints of services have a row here" in text
    assert not unseen(answers(), CaptureReport())


def test_tables_say_nothing_of_files() -> None:
    assert "tables, which do not say" in unseen(answers(), None)[-1].what
