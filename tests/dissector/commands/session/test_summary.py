"""What a session does above NATS, in a few lines."""

from __future__ import annotations

import pytest

from dissect.nats import Options, sessions
from dissect.nats.application.jetstream.consumers import ConsumerRecord
from dissect.nats.application.jetstream.kv import KvRecord
from dissect.nats.application.jetstream.layer import JetStream
from dissect.nats.commands.session.detail import session_story
from dissect.nats.commands.session.summary import SessionSummary
from dissect.nats.schema.records import SubscriptionRecord

from tests.dissector.application.scripted_session import ScriptedSession
from tests.support.paths import CAPTURES


def summary(name: str) -> list[dict[str, str]]:
    """The lines of each session of a capture."""
    path = str(CAPTURES / name)
    ids = [row.session for row in sessions([path])]
    return [dict(session_story([path], each, Options()).summary) for each in ids]


def test_a_summary_counts_what_jetstream_did() -> None:
    desk, watcher, *_, billing = summary("orders-2.15.1.pcap")
    assert desk["publishes"] == "21: 13 stored, 5 refused, 2 in a batch, 1 duplicate"
    assert desk["streams"] == "ORDERS 16 published, 29 delivered"
    assert desk["subjects"] == "JetStream API 35 messages (1.71 kB), acks 14 messages (114 B)"
    assert watcher["api"].endswith("; 2 rows with anomalies")
    assert billing["consumers"].startswith("BILLS/clerk 4 delivered, 2 waited at last, acks after")
    assert list(billing) == "api publishes deliveries pulls streams consumers subjects".split()


@pytest.mark.parametrize(
    "name, table, text",
    [
        ("services-2.15.1.pcap", "services", "calculator divide 3 requests, 1 error, "),
        ("stores-2.15.1.pcap", "objects", "11: 3 info failed, 3 info, 2 put, 2 get, 1 delete"),
        (
            "streaming-2.15.1.pcap",
            "streaming",
            "10: 4 publish, 4 ack_published, 1 connect, 1 close",
        ),
        ("jetstream-2.15.1.pcap", "pulls", "3: 2 filled, 1 ended by 404"),
        ("snap96.pcap", "", ""),
    ],
)
def test_a_summary_names_the_layers_of_a_session(name: str, table: str, text: str) -> None:
    first = summary(name)[0]
    assert first.get(table, "").startswith(text) and bool(first) == bool(table)


def test_what_no_table_decodes_is_named_and_counted() -> None:
    made, session = SessionSummary(), ScriptedSession(JetStream(), kind="route")
    for subject in ("$NRG.AE.x", "$NRG.P.y", "$JSC.CI.x", "orders", "$LDS.z"):
        made.add(session.link("originator", subject, b"123"))
    made.add(session.sub("$NRG.AE.x"))
    assert dict(made.lines()) == {
        "subjects": "Raft 2 messages (6 B), JetStream cluster 1 message (3 B),"
        " leafnode loop detection 1 message (3 B)"
    }


def test_lines_are_bounded() -> None:
    made = SessionSummary()
    for number in range(300):
        row = KvRecord(session="s", number=1, ts_ns=1, kind="client", bucket="b", op=f"op{number}")
        made.add(row)
        made.add(
            ConsumerRecord(
                session="s",
                number=1,
                ts_ns=1,
                last_ns=1,
                kind="client",
                stream="S",
                consumer=f"C{number}",
            )
        )
    made.add(SubscriptionRecord(session="s", sender="originator"))
    consumers, kv = dict(made.lines())["consumers"], dict(made.lines())["kv"]
    assert consumers.endswith("S/C7 0 delivered; and 292 more") and consumers.count("S/") == 8
    assert kv.startswith("300: 44 other, 1 op0") and kv.endswith("249 other")
