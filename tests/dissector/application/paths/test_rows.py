"""Rows of one publication: servers, the time since the cause of each hop, order, corrected clocks."""

from __future__ import annotations

import random

from dissect.nats.application.paths.clocks import Clocks
from dissect.nats.application.paths.facts import Facts
from dissect.nats.application.paths.hops import Hop
from dissect.nats.application.paths.items import Match, match_items, publication_item
from dissect.nats.application.paths.rows import PathRecord, rows_of

from tests.dissector.application.paths.grouping import hop
from tests.dissector.application.scripted_session import values

ENDS = {
    "p": {"responder": "NA"},
    "ab": {"originator": "NA", "responder": "NB"},
    "rb": {"responder": "NB"},
}
FACTS = Facts(ends=ENDS, names={"NA": "a", "NB": "b"}, taps={"c", "d"})
PUBLICATION = hop(10, "p", sender="originator")
ROUTE = hop(15, "ab", sender="originator")
NO_CLOCKS = Clocks({}, {})


def rows(*hops: Hop, clocks: Clocks = NO_CLOCKS) -> list[PathRecord]:
    items = [*match_items(PUBLICATION, [Match(each, "unique") for each in hops])]
    items.append(publication_item(PUBLICATION, 1))
    random.Random(len(hops)).shuffle(items)
    return [*rows_of(iter([iter(items)]), FACTS, clocks)]


def test_each_hop_is_since_the_one_that_brought_the_message() -> None:
    made = rows(hop(18, "rb"), ROUTE, hop(20, "elsewhere"))
    assert values(made, "from_server", "to_server", "since_ns", "total_ns") == [
        (None, "a", None, None),
        ("a", "b", 5, 5),
        ("b", None, 3, 8),
        (None, None, 10, 10),
    ]
    assert {row.message for row in made} == {"p:10"} and made[0].matched_by is None


def test_clocks_are_corrected_and_the_correction_is_shown() -> None:
    shown = {("c", "d"): -297, ("d", "c"): 303}
    made = rows(hop(18 - 300, "rb", tap="d"), ROUTE, clocks=Clocks.of(shown))
    assert values(made, "session", "ts_ns", "since_ns", "clock_ns", "clock_error_ns") == [
        ("p", 10, None, None, None),
        ("ab", 15, 5, None, None),
        ("rb", 18, 3, 300, 3),
    ]


def test_a_hop_comes_after_its_cause_even_where_clocks_deny_it() -> None:
    made = rows(hop(12, "rb", tap="d"), ROUTE, hop(13, "other"))
    assert values(made, "session", "since_ns") == [("p", None), ("other", 3), ("ab", 5), ("rb", -3)]


def test_hops_without_their_publication_make_no_rows() -> None:
    (item,) = match_items(PUBLICATION, [Match(ROUTE, "unique")])
    assert [*rows_of(iter([iter([item])]), FACTS, NO_CLOCKS)] == []


def test_a_hop_of_a_group_has_a_number_and_no_latency() -> None:
    items = [*match_items(PUBLICATION, [Match(ROUTE, "group", 4)])]
    items.append(publication_item(PUBLICATION, 7))
    made = [*rows_of(iter([iter(items)]), FACTS, NO_CLOCKS)]
    assert values(made, "matched_by", "passed", "copies", "since_ns", "total_ns") == [
        (None, None, 7, None, None),
        ("group", 4, 7, None, None),
    ]
