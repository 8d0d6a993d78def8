"""Payloads in the tables above the frames: shown as `frames` shows them, and only when asked for."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dissect.nats import Options, frames, records
from dissect.nats.cli import cli
from dissect.nats.schema.records import Record, text_of
from dissect.nats.tables import TABLES

from tests.support.damage import pcap_bytes, read_pcap, snap
from tests.support.paths import ROOT

pytestmark = pytest.mark.usefixtures("worker_processes")

CAPTURES = ROOT / "samples" / "captures"
ORDERS = str(CAPTURES / "orders-2.15.1.pcap")
STORES = str(CAPTURES / "stores-2.15.1.pcap")
# The table, a capture in which it has rows, the size of the message, and how many rows have one.
SAMPLES = [
    ("publishes", ORDERS, "payload_bytes", 27),
    ("deliveries", ORDERS, "payload_bytes", 36),
    ("kv", STORES, "value_bytes", 13),
    ("streaming", str(CAPTURES / "streaming-2.15.1.pcap"), "payload_bytes", 40),
]
Shown = dict[tuple[object, object, object], tuple[str | None, str | None]]


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, [*args])


def shown(rows: list[Record]) -> Shown:
    """The two columns by the row's place."""
    return {
        (getattr(row, "session"), getattr(row, "number"), getattr(row, "op", None)): (
            getattr(row, "payload"),
            getattr(row, "payload_sha256"),
        )
        for row in rows
    }


def without_payload(row: Record) -> Record:
    return replace(row, payload=None, payload_sha256=None)  # type: ignore[type-var]  # a dataclass


@pytest.mark.parametrize("table, path, size, count", SAMPLES)
def test_messages_are_shown_only_when_asked_for(
    table: str, path: str, size: str, count: int
) -> None:
    silent = list(records([path], [table]))
    assert set(shown(silent).values()) == {(None, None)}
    texts, encoded, digests = (
        list(records([path], [table], Options(payload=payload)))
        for payload in ("text", "base64", "sha256")
    )
    assert [without_payload(row) for row in encoded] == silent
    seen = 0
    for row, as_text, as_base64, as_digest in zip(
        silent, shown(texts).values(), shown(encoded).values(), shown(digests).values(), strict=True
    ):
        assert (as_base64[0] is None) == (getattr(row, size) is None)
        if as_base64[0] is None:
            assert as_text == as_base64 == as_digest == (None, None)
            continue
        data = b64decode(as_base64[0])
        assert getattr(row, size) == len(data)
        assert as_text == (text_of(data), None)
        assert as_digest == (None, sha256(data).hexdigest())
        seen += 1
    assert seen == count


@pytest.mark.parametrize("payload", ["text", "sha256"])
def test_cut_messages_are_shown_as_frames_shows_them(tmp_path: Path, payload: str) -> None:
    path = tmp_path / "cut.pcap"
    whole = read_pcap(Path(ORDERS).read_bytes())
    path.write_bytes(pcap_bytes(whole.with_records(snap(whole.records, 175))))
    options = Options(payload=payload)
    of_frames = {
        (row.session, row.number): (row.payload, row.payload_sha256, row.captured_bytes)
        for row in frames([str(path)], options)
    }
    cut = 0
    for row in records([str(path)], ["publishes", "deliveries"], options):
        if getattr(row, "payload_bytes") is None:
            continue  # only the ack was captured
        *expected, captured = of_frames[getattr(row, "session"), getattr(row, "number")]
        assert [getattr(row, "payload"), getattr(row, "payload_sha256")] == expected
        cut += captured is not None
    assert cut > 3


def test_commands_and_queries_show_them() -> None:
    pytest.importorskip("duckdb")
    asked = ("kv", "--payload", "text", "--format", "jsonl")
    one = run(*asked, STORES)
    rows = [json.loads(line) for line in one.stdout.splitlines()]
    values = [row["payload"] for row in rows if row.get("key") == "milk" and "payload" in row]
    assert values == ["1.20", "1.30", "1.20", "1.25", "9", "1.25"]
    assert run(*asked, "--jobs", "2", STORES).stdout == one.stdout
    query = "SELECT payload FROM kv WHERE key = 'milk' AND op = 'get' ORDER BY number"
    done = run("sql", query, "--payload", "text", "--format", "jsonl", STORES)
    assert [json.loads(line)["payload"] for line in done.stdout.splitlines()] == ["1.20", "1.25"]
    assert "payload" not in run("kv", STORES).stdout
    assert "payload" in run("kv", "--payload", "text", STORES).stdout.splitlines()[0]


@pytest.mark.parametrize("table", TABLES)
def test_commands_of_other_tables_refuse_the_option(table: str) -> None:
    done = run(table, "--payload", "text", ORDERS)
    shows = table in {"frames", "publishes", "deliveries", "kv", "streaming"}
    assert TABLES[table].shows_payloads == shows
    assert done.exit_code == (0 if shows else 2), done.output
    assert shows or "has no option --payload" in done.stderr
