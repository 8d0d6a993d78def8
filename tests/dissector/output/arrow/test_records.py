"""Records to Arrow and back: every column of every table, and what Arrow cannot hold."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dissect.nats.errors import MissingLibrary
from dissect.nats.output.arrow.records import batch, batch_of_values, schema, values
from dissect.nats.output.arrow.types import pyarrow
from dissect.nats.pipeline import records
from dissect.nats.schema.declaration import Type
from dissect.nats.schema.records import AnomalyRecord, Record, SessionRecord
from dissect.nats.tables import TABLES
from natsync._extras import pip_install

from tests.support.arrow_rows import records_of
from tests.support.paths import CAPTURES
from tests.support.requirements import missing

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))


def sample(table: str, name: str = "core-2.15.1.pcap") -> list[Record]:
    return list(records([str(CAPTURES / name)], [table]))


def session(**values: object) -> SessionRecord:
    texts = "session capture kind transport originator responder start end".split()
    needed: dict[str, object] = {**dict.fromkeys(texts, "x"), "first_ns": 1, "last_ns": 2}
    return SessionRecord(**{**needed, **values})  # type: ignore[arg-type]  # the tests know the columns


@pytest.mark.parametrize("table", TABLES)
def test_a_schema_has_the_columns_of_its_table(table: str) -> None:
    fields = list(schema(table))
    assert [field.name for field in fields] == [column.name for column in TABLES[table].columns]
    assert [field.nullable for field in fields] == [
        column.optional for column in TABLES[table].columns
    ]
    comments = [field.metadata[b"comment"].decode() for field in fields]
    assert comments == [column.meaning for column in TABLES[table].columns]


def test_types_are_arrows_own() -> None:
    types = {
        str(schema("frames").field(name).type) for name in ("op", "ts_ns", "queues", "headers")
    }
    assert str(schema("frames").field("time").type) == "timestamp[us, tz=UTC]"
    assert types == {
        "string",
        "int64",
        "list<element: string not null>",
        "map<string, list<element: string not null>>",
    }
    assert str(schema("sessions").field("anomalies").type) == "map<string, int64>"
    assert {column.type for table in TABLES.values() for column in table.columns} == set(Type)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", ["core-2.15.1.pcap", "cluster-2.15.1.pcap", "lossy.pcap"])
def test_records_come_back_as_they_were(table: str, name: str) -> None:
    rows = sample(table, name)
    assert rows or table in {"anomalies", "requests", "subscriptions"} or TABLES[table].layer
    back = batch(table, rows)
    back.validate(full=True)
    assert records_of(table, back) == rows


def test_an_empty_batch_has_the_schema() -> None:
    assert batch("flows", []).schema == schema("flows")
    assert records_of("flows", batch("flows", [])) == []


def test_some_columns_in_the_order_given() -> None:
    rows = sample("frames")
    some = batch("frames", rows, ["subject", "op"])
    assert some.schema == schema("frames", ["subject", "op"])
    assert some.column("op").to_pylist()[:2] == ["INFO", "CONNECT"]


@pytest.mark.parametrize("columns", [["op"], ["headers", "op", "number"], ["time"]])
def test_values_make_the_same_batch(columns: list[str]) -> None:
    rows = sample("frames")
    taken = list(map(values("frames", columns), rows))
    assert batch_of_values("frames", taken, columns) == batch("frames", rows, columns)


def test_what_arrow_cannot_hold_is_changed_and_nothing_else() -> None:
    rows: list[Record] = [
        session(client_name="a\udc80b\ud800", errors=["fine", "\udfff"]),
        session(client_name="b", frames_originator={"PUB": 1 << 70}),
        session(first_ns=-(1 << 64), anomalies={"\ud800": 1}),
    ]
    first, second, third = records_of("sessions", batch("sessions", rows))
    assert first == session(client_name="a\\udc80b\\ud800", errors=["fine", "\\udfff"])
    assert second == session(client_name="b", frames_originator={"PUB": (1 << 63) - 1})
    assert third == session(first_ns=-(1 << 63), anomalies={"\\ud800": 1})


def test_numbers_at_the_ends_stay_as_they_are() -> None:
    row = AnomalyRecord(
        session="s",
        ts_ns=(1 << 63) - 1,
        packet=-(1 << 63),
        sender="responder",
        anomaly="x",
        offset=0,
        bytes=0,
    )
    assert records_of("anomalies", batch("anomalies", [row])) == [row]


def test_a_missing_library_is_reported_on_one_line() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from dissect.nats import errors\nfrom dissect.nats.output.arrow import records as arrow\n"
        "try: arrow.schema('frames')\n"
        "except errors.DissectError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == f"pyarrow is not installed; {pip_install('parquet')}\n"


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = "import sys; import dissect.nats.output.duckdb; print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
