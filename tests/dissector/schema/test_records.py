"""The one declaration of columns."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import fields

from dissect.nats.schema.declaration import Type
from dissect.nats.schema.records import (
    UNPRINTABLE,
    AnomalyRecord,
    FrameRecord,
    SessionRecord,
    printable,
    printable_json,
    text_of,
)
from dissect.nats.tables import TABLES

from tests.support.records import session_record


def test_every_field_is_a_column_with_a_meaning() -> None:
    for table in TABLES.values():
        assert all(column.meaning for column in table.columns)
    names = [item.name for item in TABLES["frames"].columns if item.name != "time"]
    assert names == [item.name for item in fields(FrameRecord)]


def test_types_and_absence() -> None:
    columns = {column.name: column for column in TABLES["frames"].columns}
    assert (columns["ts_ns"].type, columns["ts_ns"].optional) == (Type.INTEGER, False)
    assert (columns["headers"].type, columns["headers"].optional) == (Type.HEADERS, True)
    assert columns["queues"].type is Type.TEXTS
    sessions = {column.name: column.type for column in TABLES["sessions"].columns}
    assert sessions["frames_originator"] is Type.COUNTS


def test_the_columns_that_users_rely_on() -> None:
    frames = "session number ts_ns time packet capture sender kind op subject reply sid queue queues account"
    sessions = "session capture kind transport compression originator responder first_ns time last_ns start"
    assert [column.name for column in TABLES["frames"].columns][:15] == frames.split()
    assert [column.name for column in TABLES["sessions"].columns][:11] == sessions.split()
    assert list(TABLES)[:6] == "frames sessions subscriptions requests flows anomalies".split()


def test_what_is_absent_is_none() -> None:
    record = AnomalyRecord(
        session="s", ts_ns=1, packet=1, sender="originator", anomaly="lost", offset=0, bytes=1
    )
    assert record.text is None
    assert SessionRecord.__slots__


def test_a_pickled_record_has_its_values_and_not_the_names_of_its_columns() -> None:
    record = session_record()
    data = pickle.dumps(record, 5)
    assert pickle.loads(data) == record and copy.copy(record) == record
    assert b"missing_bytes" not in data


def test_wire_bytes_as_text() -> None:
    assert text_of("Grüße".encode() + b"\xff") == "Grüße\\xff"


def test_json_that_is_printable_says_the_same() -> None:
    value = {"".join(map(chr, UNPRINTABLE)): "".join(map(chr, (*UNPRINTABLE, 0xD800, 0x416)))}
    text = printable_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(printable(text)) == json.loads(text) == value
    assert "\\u007f" in text and "\u0416" in text
