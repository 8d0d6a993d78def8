"""JSON bodies: read without raising, shown without secrets and stored contents."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.application.json_bodies import (
    Member,
    clock_ns,
    decimal,
    error_of,
    fill,
    flag,
    masked_json,
    member,
    number,
    read_object,
    text,
    texts,
    time_ns,
)
from dissect.nats.schema.records import Record
from dissect.nats.secrets.redact import NO_SECRETS


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[1]",
        b'"text"',
        b'{"cut": ',
        b'{"not": NaN}',
        b'{"deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"long": ' + b"9" * 10_000 + b"}",
        b"\xff\xfe",
    ],
)
def test_what_is_no_object(content: bytes) -> None:
    assert read_object(content) is None


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    for data in (content, b"{" + content, b'{"a":' + content + b"}"):
        found = read_object(data)
        if found is not None:
            json.loads(masked_json(found, NO_SECRETS))


def test_numbers_beyond_a_float_do_not_become_what_json_lacks() -> None:
    found = read_object(b'{"rate": 1e999}')
    assert found is not None and masked_json(found, NO_SECRETS) == "***"


def test_secrets_and_stored_contents_are_masked() -> None:
    text = masked_json(
        {
            "message": {"seq": 1, "data": "c2VjcmV0", "hdrs": "TkFUUw=="},
            "password": "hunter2",
            "external": "nats://u:hunter2@host:4222",
        },
        NO_SECRETS,
    )
    assert "c2VjcmV0" not in text and "TkFUUw" not in text and "hunter2" not in text
    assert json.loads(text)["message"] == {"seq": 1, "data": "***", "hdrs": "***"}


def test_an_audit_repeats_no_contents() -> None:
    inner = json.dumps({"message": {"data": "c2VjcmV0"}})
    audit = {
        "type": "io.nats.jetstream.advisory.v1.api_audit",
        "response": inner,
        "request": "x",
    }
    body = json.loads(masked_json(audit, NO_SECRETS))
    assert json.loads(body["response"]) == {"message": {"data": "***"}}
    assert body["request"] == "***"


def test_long_bodies_are_shortened() -> None:
    body = json.loads(
        masked_json({"total": 3, "streams": ["x" * 200] * 100, "text": "y" * 9000}, NO_SECRETS)
    )
    assert body["total"] == 3 and body["streams"] == "100 items"
    assert body["text"].endswith("...") and len(body["text"]) < 600


def test_members_of_the_wrong_type_are_absent() -> None:
    value = {"text": 1, "number": True, "large": 1 << 70, "flag": "true", "member": []}
    assert text(value, "text") == "" and number(value, "number") is None
    assert number(value, "large") is None and flag(value, "flag") is None
    assert member(value, "member") == {}


def test_an_error_in_a_body_has_code_number_and_text() -> None:
    error = {"code": 404, "err_code": 10059, "description": "stream not found"}
    assert error_of({"error": error}, NO_SECRETS) == (404, 10059, "stream not found")
    assert error_of({"error": "plain"}, NO_SECRETS) == (None, None, "plain")
    assert error_of({}, NO_SECRETS) == error_of({"error": 7}, NO_SECRETS) == (None, None, None)


@pytest.mark.parametrize(
    "value, expected",
    [
        ("17", 17),
        ("0", 0),
        ("-1", None),
        ("", None),
        (None, None),
        ("9" * 30, None),
        ("٣", None),
    ],
)
def test_numbers_in_headers(value: str | None, expected: int | None) -> None:
    assert decimal(value) == expected


def test_control_characters_that_json_allows_are_escaped() -> None:
    value = {"name": "a\x7fb\x9bc\u202ed\udc80"}
    text = masked_json(value, NO_SECRETS)
    assert text == '{"name":"a\\u007fb\\u009bc\\u202ed\\udc80"}' and json.loads(text) == value


@dataclass(slots=True, kw_only=True)
class ConfigRecord(Record):
    """A row that shows members of JSON."""

    name: Annotated[str | None, "a text", Member("config.name")] = None
    wait_ns: Annotated[int | None, "a number", Member("config.wait")] = None
    subjects: Annotated[list[str] | None, "texts", Member("config.subjects")] = None
    paused: Annotated[bool | None, "a flag", Member("paused")] = None
    other: Annotated[str | None, "no member"] = None


def test_columns_show_the_members_that_their_declarations_name() -> None:
    row = ConfigRecord(other="kept")
    config = {"name": "C", "wait": 5, "subjects": ["a", 1, "", "b"]}
    fill(row, {"config": config, "paused": True})
    assert row == ConfigRecord(name="C", wait_ns=5, subjects=["a", "b"], paused=True, other="kept")


def test_a_member_that_is_missing_empties_its_column_and_a_missing_object_does_not() -> None:
    row = ConfigRecord(name="C", wait_ns=5, paused=True)
    fill(row, {"paused": "yes"})
    assert row == ConfigRecord(name="C", wait_ns=5)
    fill(row, {"config": {}})
    assert row == ConfigRecord()


def test_of_a_long_list_the_first_texts_are_shown() -> None:
    assert texts({"a": ["x"] * 1000}, "a") == ["x"] * 256
    assert texts({"a": "x"}, "a") is texts({}, "a") is texts({"a": [1]}, "a") is None


S = 10**9


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:01Z", S),
        ("1970-01-01T00:00:01.5Z", S * 3 // 2),
        ("2026-11-21T02:01:48.005320001Z", 1795226508_005320001),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:30:00.000000001-00:30", 1),
        ("0001-01-01T00:00:00Z", -62135596800 * S),
    ],
)
def test_a_time_is_read_to_the_nanosecond(text: str, ns: int) -> None:
    assert time_ns(text) == ns


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-02-30T00:00:00Z", "1970-01-01T00:00:01", "٢٠٢٦-11-21T02:01:48Z", "x" * 99],
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert time_ns(text) is None and clock_ns(text, 0) is None


@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 1, 1)))
def test_times_are_those_of_the_calendar(moment: datetime) -> None:
    moment = moment.replace(microsecond=0)
    ns = round(moment.replace(tzinfo=timezone.utc).timestamp()) * S
    assert time_ns(f"{moment.isoformat()}Z") == ns


def test_a_clock_that_is_ahead_is_positive() -> None:
    assert clock_ns("1970-01-01T00:00:05Z", 3 * S) == 2 * S
    assert clock_ns("1970-01-01T00:00:05Z", 6 * S) == -S


def test_no_time_says_nothing_of_a_clock() -> None:
    assert clock_ns("0001-01-01T00:00:00Z", S) is None
