"""What matters of a row, in few words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import pytest

from dissect.nats import records, tables
from dissect.nats.schema.records import FlowRecord, Record, RequestRecord, SubscriptionRecord
from dissect.nats.tables import TABLES

from tests.support.paths import CAPTURES, INCIDENTS
from tests.support.records import session_record

# Columns without a value in any sample, which other tests fill: with an option, or from made-up frames.
EMPTY = {
    **{name: {"payload", "payload_sha256"} for name in ("frames", "publishes", "deliveries", "kv")},
    "sessions": {"proxied_for", "proxied_to", "proxy_auth", "lame_duck_ns", "user_name"}
    | {"same_as", "copy_of"},
    "flows": {"path", "tls_alpn", "tls_client_subject", "tls_alerts"}
    | {"websocket_origin", "websocket_cookies", "websocket_protocol"},
    "pulls": {"priority"},
    "consumers": {"paused"},
    "paths": {"clock_ns", "clock_error_ns"}  # captures of several hosts
    | {"passed", "same_as"},  # several publishers; a connection in several places
    "servers": {"copies"},
    "streaming": {"error", "payload", "payload_sha256"},
}
COMMON = {"account", "anomalies"}  # of every table above frames


@dataclass(slots=True, kw_only=True)
class Broken(Record):
    first_ns: Annotated[int, "time"]
    share: Annotated[complex, "no column"]


def shown(table: str, row: Record) -> dict[str, str]:
    return {column.name: column.cell(row) for column in TABLES[table].text}


def test_every_row_of_the_samples_has_its_cells() -> None:
    tables = {table.row: name for name, table in TABLES.items() if table.text}
    empty = set(tables.values())
    for row in records([str(CAPTURES)], list(tables.values())):
        name = tables[row.__class__]
        empty.discard(name)
        assert shown(name, row)
    assert not empty, "a table needs a sample that fills it: see samples/captures/README.md"


def test_every_column_has_a_value_in_some_sample() -> None:
    empty = {name: set(table.row.__dataclass_fields__) for name, table in TABLES.items()}
    names = {table.row: name for name, table in TABLES.items()}
    for path in sorted([*CAPTURES.glob("*.pcap*"), *INCIDENTS.glob("*.pcap")]):
        for row in records([str(path)], list(TABLES)):
            left = empty[names[row.__class__]]
            left -= {column for column in left if getattr(row, column) is not None}
    for name, table in TABLES.items():
        allowed = EMPTY.get(name, set()) | (COMMON if table.layer else set())
        assert empty[name] <= allowed, f"{name}: never filled, or no sample shows it"


def test_the_text_of_a_session_is_short() -> None:
    row = session_record()
    row.errors, row.missing_bytes, row.user = ["x", "y"], 7, "U" * 56
    row.bytes_originator, row.bytes_responder = 900, 300
    cells = shown("sessions", row)
    assert (cells["errors"], cells["lost"], cells["bytes"]) == ("x; y", "7 B", "1.20 kB")
    assert cells["user"] == "U" * 21 + "..."
    assert cells["hidden"] == ""


def test_what_is_hidden_is_not_lost() -> None:
    row = session_record()
    row.transport, row.skipped_bytes, row.missing_bytes = "tls", 5003, 10
    row.opaque_bytes = 5000
    cells = shown("sessions", row)
    assert (cells["kind"], cells["hidden"], cells["lost"]) == (f"{row.kind}+tls", "5.00 kB", "13 B")


def test_the_text_of_a_subscription_says_how_it_ended() -> None:
    row = SubscriptionRecord(session="s", sender="originator", opened_ns=0, delivered=3)
    row.closed_ns, row.close, row.delivered_bytes = 2_000_000, "auto", 30
    cells = shown("subscriptions", row)
    assert (cells["lasted"], cells["closed"], cells["bytes"]) == ("2.00 ms", "auto", "30 B")
    assert cells["subject"] == "?"
    row.closed_ns = row.close = None
    assert (shown("subscriptions", row)["lasted"], shown("subscriptions", row)["closed"]) == (
        "",
        "open",
    )


@pytest.mark.parametrize(
    "replied_ns, status, outcome, answer",
    [
        (None, None, "no_reply", "none"),
        (None, None, "refused", "refused"),
        (5, None, "ok", "ok"),
        (5, 503, "no_responders", "503 nobody"),
        (5, 408, "ok", "408"),
        (5, None, "api_error", "error 400"),
        (5, None, "service_error", "error 400"),
    ],
)
def test_the_text_of_a_request_says_its_answer(
    replied_ns: int | None, status: int | None, outcome: str, answer: str
) -> None:
    row = RequestRecord(session="s", subject="a", reply="b", sent_ns=0, request_bytes=1)
    row.replied_ns, row.status, row.outcome = replied_ns, status, outcome
    row.error_code = 400 if "error" in outcome else None
    row.latency_ns = None if replied_ns is None else 1_200_000
    cells = shown("requests", row)
    assert cells["answer"] == answer
    assert cells["latency"] == ("" if replied_ns is None else "1.20 ms")


def test_the_text_of_a_flow_says_its_losses() -> None:
    row = FlowRecord(
        session="s",
        community_id="1:x",
        originator="a:1",
        responder="b:2",
        first_ns=0,
        last_ns=10**9,
        start="midstream",
        end="open",
        protocol="other",
        missing_responder=5,
        packets_originator=3,
    )
    cells = shown("flows", row)
    assert (cells["end"], cells["lost"], cells["packets"]) == ("open, midstream", "5 B", "3 / 0")
    assert (cells["lasted"], cells["repeated"], cells["disordered"]) == ("1.00 s", "", "")


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"name": "a-b"}, ValueError, "a name is one word"),
        ({"time": "when"}, ValueError, "has no column 'when'"),
        ({"row": Broken}, TypeError, "Broken.share: no column can be of type"),
    ],
    ids=["name", "time", "type"],
)
def test_a_wrong_declaration_says_what_is_wrong(
    changed: dict[str, object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        print(replace(TABLES["flows"], **changed).columns)  # type: ignore[arg-type]  # what is wrong


@pytest.mark.parametrize("name", ["frames", "info"])
def test_a_name_that_is_taken_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = replace(TABLES["flows"], name=name)
    monkeypatch.setattr(tables, "_FROM_SESSIONS", (TABLES["frames"], taken))
    with pytest.raises(ValueError, match=f"table '{name}': the name is taken"):
        tables._declared()
