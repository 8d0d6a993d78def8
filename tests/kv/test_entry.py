"""Entries: which operation a stored message is."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from natsync import Headers
from natsync.jetstream import InvalidResponseError
from natsync.kv import Entry, Operation
from natsync.kv.entry import operation_of


@pytest.mark.parametrize(
    "headers, operation",
    [
        ({}, Operation.PUT),
        ({"KV-Operation": "DEL"}, Operation.DELETE),
        ({"KV-Operation": "PURGE", "Nats-Rollup": "sub"}, Operation.PURGE),
        ({"KV-Operation": "PUT"}, Operation.PUT),
        ({"Nats-Marker-Reason": "MaxAge"}, Operation.PURGE),
        ({"Nats-Marker-Reason": "Purge"}, Operation.PURGE),
        ({"Nats-Marker-Reason": "Remove"}, Operation.DELETE),
        ({"KV-Operation": "PUT", "Nats-Marker-Reason": "MaxAge"}, Operation.PUT),
        ({"Nats-Marker-Reason": "of the future"}, Operation.PUT),
    ],
)
def test_the_operation_of_a_message(headers: dict[str, str], operation: Operation) -> None:
    assert operation_of(Headers(headers)) is operation


def test_an_entry_has_a_time_and_is_compared_by_what_it_says() -> None:
    time = datetime(2026, 11, 22, 8, 0, 0, 123_456, timezone.utc)
    stored = int(time.timestamp()) * 10**9 + 123_456_789
    entry = Entry("b", "k", b"v", 7, 0, Operation.PUT, 1, stored)
    assert entry.created == time
    assert entry == Entry("b", "k", b"v", 7, 3, Operation.PUT, 1, time)
    assert len({entry, Entry("b", "k", b"v", 8, 0, Operation.PUT, 1, stored)}) == 2
    assert (
        Entry("b", "k", b"v", 7, 0, Operation.PUT, 1, "2026-11-22T08:00:00.123456789Z").created
        == time
    )
    assert entry != "entry"
    assert repr(entry) == "Entry('b', 'k', revision=7, PUT, 1 bytes)"


def test_a_time_that_does_not_exist_is_a_named_error() -> None:
    entry = Entry("b", "k", b"v", 7, 0, Operation.PUT, 1, "2026-02-30T08:00:00Z")
    with pytest.raises(InvalidResponseError, match="2026-02-30"):
        entry.created
