"""Answers through a service import: the reply that replaced that of the request proves where they go."""

from __future__ import annotations

from collections.abc import Iterable

from dissect.nats.application.paths.facts import SessionFacts
from dissect.nats.application.paths.hops import Hop
from dissect.nats.application.paths.items import CONTENTS, hop_item

from tests.dissector.application.paths.grouping import Scattered, hop, path_rows

# A client asks at server A, and a route takes the request to B, where the service is.
ENDS = {
    "client": {"responder": "NA"},
    "route": {"originator": "NA", "responder": "NB"},
    "service": {"responder": "NB"},
    "other": {"responder": "NC"},
}
REQUEST = hop(1, "client", "question", sender="originator", subject="help", reply="_INBOX.1")
ANSWER = hop(4, "service", "ok", sender="originator", subject="_R_.x")
ARRIVED = hop(6, "client", "ok", subject="_INBOX.1")
SEEN = [
    hop(2, "route", "question", sender="originator", subject="in.help", reply="_R_.x"),
    hop(3, "service", "question", subject="in.help", reply="_R_.x"),
    hop(5, "route", "ok", subject="_R_.x"),
]


def ways(
    publications: Iterable[Hop], hops: Iterable[Hop]
) -> dict[str, list[tuple[int, str | None]]]:
    """The hops of each publication, and what they were matched by."""
    items = [hop_item(CONTENTS, one.content, one._replace(op="PUB")) for one in publications]
    items += [hop_item(CONTENTS, one.content, one) for one in hops]
    items += [SessionFacts(ends, {}, {}, ["c"]).item(session) for session, ends in ENDS.items()]
    rows = path_rows(items)
    assert Scattered(items, 3).rows() == rows
    found: dict[str, list[tuple[int, str | None]]] = {}
    for row in rows:
        found.setdefault(row.message, [])
        if row.hop > 1:
            found[row.message].append((row.number, row.matched_by))
    return found


def test_a_short_answer_goes_to_the_reply_of_its_request() -> None:
    made = ways([REQUEST, ANSWER], [*SEEN, ARRIVED])
    assert made["client:1"] == [(2, "mapped"), (3, "mapped")]
    assert made["service:4"] == [(5, "unique"), (6, "mapped")]


def test_without_its_request_nothing_proves_it() -> None:
    assert ways([ANSWER], [*SEEN, ARRIVED])["service:4"] == [(5, "unique")]


def test_an_answer_does_not_come_before_it_was_sent() -> None:
    early = ARRIVED._replace(ts_ns=3)
    assert ways([REQUEST, ANSWER], [*SEEN, early])["service:4"] == [(5, "unique")]


def test_a_server_that_an_answer_did_not_reach_sends_none_on() -> None:
    elsewhere = hop(6, "other", "ok", subject="_INBOX.1")
    assert ways([REQUEST, ANSWER], [*SEEN, elsewhere])["service:4"] == [(5, "unique")]


def test_equal_answers_to_one_request_are_not_told_apart() -> None:
    again = hop(7, "service", "ok", sender="originator", subject="_R_.x")
    hops = [*SEEN, ARRIVED, ARRIVED._replace(ts_ns=8, number=8)]
    made = ways([REQUEST, ANSWER, again], hops)
    assert (made["service:4"], made["service:7"]) == ([], [])


def test_the_same_from_somebody_else_proves_that_one_is_missing() -> None:
    hops = [*SEEN, ARRIVED, ARRIVED._replace(ts_ns=8, number=8)]
    assert ways([REQUEST, ANSWER], hops)["service:4"] == [(5, "unique")]


def test_a_reply_of_two_requests_proves_nothing() -> None:
    other = hop(1, "client", "another", sender="originator", subject="help", reply="_INBOX.2")
    other = other._replace(number=9)
    seen = hop(2, "route", "another", sender="originator", subject="in.help", reply="_R_.x")
    made = ways([REQUEST, other, ANSWER], [*SEEN, seen._replace(number=10), ARRIVED])
    assert made["service:4"] == [(5, "unique")]
