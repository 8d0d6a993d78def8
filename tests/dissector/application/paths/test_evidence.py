"""What unique messages prove: latencies between captures, and anchors that confine doubt."""

from __future__ import annotations

from dissect.nats.application.paths.evidence import (
    Anchor,
    Anchors,
    HopEvidence,
    Interval,
    latencies,
)
from dissect.nats.application.paths.facts import GAPS, Facts
from dissect.nats.application.paths.hops import Hop
from dissect.nats.application.paths.items import ANCHORS, Match
from dissect.nats.schema.declaration import LayerItem

from tests.dissector.application.paths.grouping import Scattered, hop

P, R = ("p", "responder"), ("r", "responder")
LINE = (*R, "1")


def anchors(facts: Facts, *pairs: tuple[int, int]) -> Anchors:
    evidence = HopEvidence(facts)
    for published, carried in pairs:
        evidence.add(hop(published, "p"), [Match(hop(carried, "r"), "unique")])
    return Anchors([item for item in evidence.items() if item.stage == ANCHORS])


def intervals(facts: Facts, *pairs: tuple[int, int]) -> list[tuple[Anchor, Anchor, bool]]:
    return [tuple(interval) for interval in anchors(facts, *pairs).intervals(facts, P, LINE)]


BEGIN, END = Anchor(0, 0), Anchor(1 << 63, 1 << 63)


def test_without_a_gap_there_is_one_piece() -> None:
    assert intervals(Facts(), (3, 4)) == [(BEGIN, END, True)]
    assert intervals(Facts(gaps={R: [5]})) == [(BEGIN, END, False)], "and no anchor"


def test_anchors_confine_a_gap() -> None:
    facts = Facts(gaps={R: [50]})
    assert intervals(facts, (10, 20), (11, 21), (30, 40), (60, 70), (90, 99)) == [
        (BEGIN, (10, 20), True),
        ((10, 20), (30, 40), True),
        ((30, 40), (60, 70), False),
        ((60, 70), (90, 99), True),
        ((90, 99), END, True),
    ]


def test_a_gap_after_all_anchors_or_before_them() -> None:
    assert intervals(Facts(gaps={P: [90]}), (10, 20)) == [
        (BEGIN, (10, 20), True),
        ((10, 20), (10, 20), True),
        ((10, 20), END, False),
    ]
    assert intervals(Facts(gaps={P: [5]}), (10, 20))[0] == (BEGIN, (10, 20), False)


def test_nothing_is_whole_after_more_gaps_than_are_counted() -> None:
    facts = Facts(gaps={R: [*range(10, 10 + GAPS)]})
    assert intervals(facts, (3, 4), (5, 6), (7000, 8000), (7001, 9000)) == [
        (BEGIN, (3, 4), True),
        ((3, 4), (5, 6), True),
        ((5, 6), (7000, 8000), False),
        ((7000, 8000), (7001, 9000), False),
        ((7001, 9000), END, False),
    ]


def test_anchors_that_contradict_each_other_prove_nothing() -> None:
    facts = Facts(gaps={P: [15]})
    assert intervals(facts, (10, 30), (20, 25)) == [(BEGIN, END, False)]


def test_several_tasks_have_the_anchors_of_one() -> None:
    facts = Facts(gaps={R: [50]})
    parts = [HopEvidence(facts), HopEvidence(facts)]
    pairs = [(10, 20), (11, 21), (30, 40), (60, 70), (90, 99)]
    for at, (published, carried) in enumerate(pairs):
        parts[at % 2].add(hop(published, "p"), [Match(hop(carried, "r"), "unique")])
    items = [item for part in parts for item in part.items()]
    assert Anchors(items).intervals(facts, P, LINE) == anchors(facts, *pairs).intervals(
        facts, P, LINE
    )
    assert isinstance(anchors(facts).intervals(facts, P, LINE)[0], Interval)


def measured(facts: Facts, publication: Hop, *hops: Hop) -> dict[tuple[str, str], int]:
    evidence = HopEvidence(facts)
    evidence.add(publication, [Match(each, "unique") for each in hops])
    items: list[LayerItem] = [*evidence.items()]
    return latencies(Scattered(items, 1))


def test_latencies_are_between_captures_and_by_server() -> None:
    ends = {"p": {"originator": "NA"}, "x": {"originator": "NA", "responder": "NB"}}
    ends["r"] = {"responder": "NB"}
    facts = Facts(ends=ends, taps={"c", "d"})
    publication = hop(10, "p", sender="responder")
    route = hop(15, "x", sender="originator")
    reader = hop(18, "r", tap="d")
    assert measured(facts, publication, route, reader) == {("c", "d"): 3}, "since the route"
    assert measured(facts, publication, reader) == {("c", "d"): 8}, "since the publication"
    assert measured(Facts(taps={"c"}), publication, reader) == {}
