"""Values: which rows have them."""

from __future__ import annotations

import pytest

from dissect.nats.audit.sql.dialect import Dialect
from dissect.nats.audit.sql.matching import Matcher
from dissect.nats.errors import RuleError

from tests.support.audit import frame, matched

ROWS = [
    frame(1, subject="Orders.new", payload_bytes=10, queues=["Blue", "red"], reply="_INBOX.a"),
    frame(2, subject="orders.old", payload_bytes=20, error="50% off", reply="orders.old"),
    frame(3, subject="", payload_bytes=30, headers={"Key": ["Secret", "x"]}, max_msgs=30),
    frame(4, payload_bytes=None, op="PING", json='{"n": 5, "b": true, "t": "5"}'),
]


@pytest.mark.parametrize(
    ("selection", "numbers"),
    [
        ("{subject: orders.NEW}", [1]),
        ("{subject|cased: orders.new}", []),
        ("{subject|cased: Orders.*}", [1]),
        ("{subject: 'orders.*'}", [1, 2]),
        ("{subject: 'orders.?ew'}", [1]),
        ("{subject: 'orders.\\*'}", []),
        ("{subject|startswith: ORD}", [1, 2]),
        ("{subject|endswith: old}", [2]),
        ("{error|contains: '0% o'}", [2]),
        ("{error|contains: '0_ o'}", []),
        ("{subject|contains|all: [orders, new]}", [1]),
        ("{subject: [orders.new, orders.old]}", [1, 2]),
        ("{subject: ''}", [3]),
        ("{subject: null}", [4]),
        ("{subject|exists: true}", [1, 2, 3]),
        ("{payload_bytes|exists: false}", [4]),
        ("{payload_bytes: 20}", [2]),
        ("{payload_bytes: '20'}", [2]),
        ("{payload_bytes: '2*'}", [2]),
        ("{payload_bytes|gt: 10}", [2, 3]),
        ("{payload_bytes|gte: 10}", [1, 2, 3]),
        ("{payload_bytes|lt: 20.5}", [1, 2]),
        ("{payload_bytes|lte: 10}", [1]),
        ("{queues: blue}", [1]),
        ("{queues|contains|all: [blue, red]}", [1]),
        ("{queues|re: '^B'}", [1]),
        ("{headers.Key: secret}", [3]),
        ("{json.n: 5}", [4]),
        ("{json.n|gt: 4}", [4]),
        ("{json.b: true}", [4]),
        ("{json.t: '5'}", [4]),
        ("{json.z: null}", [1, 2, 3, 4]),
        ("{subject|re: 'rd.*s'}", [1, 2]),
        ("{subject|re|i: '^ORD'}", [1, 2]),
        ("{subject|fieldref: reply}", [2]),
        ("{payload_bytes|fieldref: max_msgs}", [3]),
        ("{reply|fieldref|startswith: subject}", [2]),
        ("{headers.Key|base64: x}", []),
        ("{error|windash|contains: ' -x'}", []),
    ],
)
def test_a_value_matches_the_rows_that_sigma_says(selection: str, numbers: list[int]) -> None:
    assert matched(f"selection: {selection}", *ROWS) == numbers


def test_an_encoded_value_is_found_in_each_of_its_forms() -> None:
    rows = [frame(1, payload="xxc2VjcmV0"), frame(2, payload="secret"), frame(3, payload="a –x")]
    assert matched("selection: {payload|base64|contains: secret}", *rows) == [1]
    assert matched("selection: {payload|base64offset|contains: secret}", *rows) == [1]
    assert matched("selection: {payload|windash|contains: ' -x'}", *rows) == [3]


@pytest.mark.parametrize(
    ("selection", "numbers"),
    [
        ("[ORDERS.new]", [1]),
        ("['0% O']", [2]),
        ("[red]", [1]),
        ("[secret]", [3]),
        ("['key']", [3]),
        ("{'|all': [orders, old]}", [2]),
        ("{'|re': '^PI'}", [4]),
        ("[nothing]", []),
        ("[5]", [2, 4]),
    ],
)
def test_a_keyword_is_found_in_each_field(selection: str, numbers: list[int]) -> None:
    assert matched(f"selection: {selection}", *ROWS) == numbers


def test_not_holds_for_what_is_absent() -> None:
    rows = [frame(1, subject="a"), frame(2)]
    assert matched("s: {subject: a}\n  condition: not s", *rows) == [2]
    assert matched("s: {payload_bytes|gt: 1}\n  condition: not s", *rows) == [1, 2]
    assert matched("s: {queues: a}\n  condition: not s", *rows) == [1, 2]


@pytest.mark.parametrize(
    ("selection", "reason"),
    [
        ("{subject|re|expand: '%x%'}", "placeholders in regular expressions are not supported"),
        ("{ts_ns|hour: 3}", "parts of times (minute, hour, day ...) are not supported"),
        ("{headers: x}", "'headers' is a map: name one of its keys, headers.KEY"),
        ("{subject|gt: 5}", "'subject' is text, and cannot be compared by size"),
        ("{op: true}", "'op' is text, and neither true nor false"),
        ("{subject|re: '(?=x)'}", "look-ahead in a regular expression is not supported"),
        ("{subject|utf16: x}", "a text cannot contain the character NUL"),
        ("{payload_bytes|fieldref|contains: status}", "'payload_bytes' is a number"),
        ("{subject|fieldref: queues}", "'queues' has no single value"),
        ("[true]", "a keyword is a text, not Bool"),
    ],
)
def test_a_value_that_a_field_cannot_have(selection: str, reason: str) -> None:
    with pytest.raises(RuleError) as raised:
        matched(f"selection: {selection}")
    assert str(raised.value).startswith("test.yml:6: ")
    assert reason in str(raised.value)


def test_the_row_of_the_session_is_joined_when_it_is_named() -> None:
    matcher = Matcher("frames", Dialect.DUCKDB, {})
    matcher.field("subject")
    assert not matcher.joined
    matcher.field("session.user")
    assert matcher.joined
