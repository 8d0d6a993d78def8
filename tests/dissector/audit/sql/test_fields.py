"""The fields that rules can name."""

from __future__ import annotations

import pytest

from dissect.nats.audit.sql.dialect import Dialect
from dissect.nats.audit.sql.fields import field_of, searched_fields

from tests.support.audit import frame, matched, session


@pytest.mark.parametrize(
    "selection",
    [
        "{subject: orders}",
        "{session.user: alice}",
        "{headers.Nats-Msg-Id: seven}",
        "{json.tls_required: true}",
        "{json.limits.max|gte: 5}",
        "{session.originator.ip: 10.0.0.7}",
        "{session.originator.port: 50000}",
        "{session.frames_originator.PUB|gt: 2}",
    ],
)
def test_a_field_has_its_value(selection: str) -> None:
    hit = frame(
        1,
        subject="orders",
        headers={"Nats-Msg-Id": ["six", "seven"]},
        json='{"tls_required": true, "limits": {"max": 5}}',
    )
    miss = frame(2, session="00000000000000bb", subject="order", json="***")
    one = session(user="alice", frames_originator={"PUB": 3})
    other = session(session="00000000000000bb", originator="10.0.0.70:50001")
    assert matched(f"selection: {selection}", hit, miss, one, other) == [1]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("subjct", "frames has no column 'subjct'; is it 'subject'?"),
        ("time", "'time' is for people; 'ts_ns' has the same time"),
        ("op.x", "'op' is not a map and has no part 'x'"),
        ("json.a-b", "keys of JSON are words"),
        ("session.nobody", "sessions has no column 'nobody'"),
    ],
)
def test_an_unknown_field_is_refused(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("?", r"\?")):
        field_of("frames", name, Dialect.DUCKDB)


def test_keywords_are_looked_for_in_texts_lists_and_headers() -> None:
    names = [field.name for field in searched_fields("frames")]
    assert {"subject", "queues", "headers", "json", "error"} <= set(names)
    assert names.count("headers") == 2
