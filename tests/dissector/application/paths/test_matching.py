"""Which hops belong to which publication: proven ones, and no others."""

from __future__ import annotations

from collections.abc import Iterable

from dissect.nats.application.paths.facts import SessionFacts
from dissect.nats.application.paths.hops import Hop
from dissect.nats.application.paths.items import (
    CONTENTS,
    PLACES,
    hop_item,
    key_of,
)

from tests.dissector.application.paths.grouping import hop, path_rows


def matched(
    publications: Iterable[Hop],
    hops: Iterable[Hop],
    places: dict[tuple[str, int], Hop] | None = None,
    torn: Iterable[tuple[str, str, int]] = (),
) -> dict[int, list[tuple[int, str | None]]]:
    """Number of each publication -> numbers of its hops, and what they were matched by. `torn` has the sides
    that lack bytes, and the number of the frame after the gap."""
    items = [hop_item(CONTENTS, one.content, one._replace(op="PUB")) for one in publications]
    for one in hops:
        stage, key = (PLACES, key_of(*one.place)) if one.place else (CONTENTS, one.content)
        items.append(hop_item(stage, key, one))
    for place, one in (places or {}).items():
        items.append(hop_item(PLACES, key_of(*place), one._replace(op="PUB")))
    for session in {one.session for one in (*publications, *hops)}:
        gaps: dict[str, list[int]] = {}
        for name, sender, number in torn:
            if name == session:
                gaps.setdefault(sender, []).append(number)
        items.append(SessionFacts({}, {}, gaps, ["c"]).item(session))
    found: dict[int, list[tuple[int, str | None]]] = {}
    for row in path_rows(items):
        if row.hop == 1:
            found.setdefault(row.number, [])
    for row in path_rows(items):
        if row.hop > 1:
            found[int(row.message.partition(":")[2])].append((row.number, row.matched_by))
    return found


def test_what_is_unique() -> None:
    found = matched([hop(1, "p", "a"), hop(2, "p", "b")], [hop(3, "r", "b"), hop(4, "s", "b")])
    assert found == {1: [], 2: [(3, "unique"), (4, "unique")]}


def test_more_hops_than_publications_prove_nothing() -> None:
    assert matched([hop(1, "p")], [hop(2, "r"), hop(3, "r")]) == {1: []}


def test_equal_ones_of_a_publisher_keep_their_order() -> None:
    ours = [hop(1, "p"), hop(2, "p"), hop(3, "p")]
    theirs = [hop(4, "r"), hop(5, "r"), hop(6, "r")]
    assert matched(ours, theirs) == {number: [(number + 3, "ordered")] for number in (1, 2, 3)}
    assert matched(ours, theirs[1:]) == {1: [], 2: [], 3: []}, "one went elsewhere"


def test_more_hops_on_one_line_leave_the_others_unproven_too() -> None:
    assert matched([hop(1, "p")], [hop(2, "r"), hop(3, "s"), hop(4, "s")]) == {1: []}


def test_where_bytes_are_missing_equal_numbers_prove_nothing() -> None:
    ours, theirs = [hop(1, "p"), hop(2, "p")], [hop(4, "r"), hop(5, "r")]
    whole = {1: [(4, "ordered")], 2: [(5, "ordered")]}
    assert matched(ours, theirs, torn={("q", "responder", 2), ("r", "originator", 2)}) == whole
    for session in "pr":
        assert matched(ours, theirs, torn={(session, "responder", 5)}) == {1: [], 2: []}
    assert matched(ours[:1], theirs[:1], torn={("p", "responder", 2)}) == {1: [(4, "unique")]}


def test_a_hop_before_its_publication_proves_that_another_is_missing() -> None:
    assert matched([hop(1, "p"), hop(9, "p")], [hop(2, "r"), hop(8, "r")]) == {
        1: [],
        9: [],
    }


def test_equal_ones_of_several_publishers_are_told_apart_by_time_only() -> None:
    ours = [hop(1, "p"), hop(5, "q")]
    assert matched(ours, [hop(2, "r"), hop(6, "r")]) == {
        1: [(2, "time")],
        5: [(6, "time")],
    }
    assert matched(ours, [hop(6, "r"), hop(7, "r")]) == {1: [(6, "group")], 5: []}


def test_equal_ones_of_several_publishers_are_a_group_where_nothing_tells_them_apart() -> None:
    ours = [hop(1, "p"), hop(2, "q"), hop(3, "p")]
    theirs = [hop(4, "r"), hop(5, "r"), hop(6, "r"), hop(5, "s")]
    of_group = {1: [(4, "group"), (5, "group")], 2: [], 3: []}
    assert matched(ours, theirs) == of_group
    nothing: dict[int, list[tuple[int, str | None]]] = {1: [], 2: [], 3: []}
    assert matched(ours, [*theirs, hop(7, "r")]) == nothing, "more than were published"
    assert matched(ours, [hop(2, "r"), hop(2, "s")])[1] == [(2, "group"), (2, "group")]
    assert matched(ours, [hop(1, "r"), hop(1, "r")]) == nothing, "one came before it was published"
    accounts = [hop(4, "r", account="A"), hop(5, "r", account="B")]
    assert matched(ours, accounts) == nothing
    assert matched(ours, theirs, torn={("p", "responder", 2)}) == nothing


def test_accounts_are_not_mixed() -> None:
    hops = [hop(3, "r", account="A"), hop(4, "r", account="B")]
    assert matched([hop(1, "p"), hop(2, "p")], hops) == {1: [], 2: []}


def test_another_tenants_stream_of_the_same_name_stores_other_messages() -> None:
    """The publication of what is delivered was not captured, and another account has a stream S, too."""
    (ours,) = [hop(1, "p", "ours")]
    theirs = hop(5, "r", "theirs", place=("S", 1))
    assert matched([ours], [theirs], {("S", 1): ours}) == {1: []}
    changed = theirs._replace(is_changed=True)  # as by a consumer that delivers only headers
    assert matched([ours], [changed], {("S", 1): ours}) == {1: [(5, "unique")]}


def test_a_stored_message_is_known_by_its_place() -> None:
    ours = [hop(1, "p", reply="_INBOX.1"), hop(2, "p", reply="_INBOX.2")]
    hops = [hop(5, "r", place=("S", 2)), hop(6, "r", place=("S", 2), attempt=2)]
    places = {("S", 1): ours[0], ("S", 2): ours[1]}
    assert matched(ours, hops, places) == {1: [], 2: [(5, "unique"), (6, "unique")]}
    # Without acks, content and order are left, of first attempts only.
    hops = [
        hop(5, "r", place=("S", 1)),
        hop(6, "r", place=("S", 2)),
        hop(7, "r", place=("S", 1)),
    ]
    hops[2] = hops[2]._replace(attempt=2)
    assert matched(ours, hops) == {1: [(5, "ordered")], 2: [(6, "ordered")]}


def test_the_reply_tells_requests_apart() -> None:
    ours = [hop(1, "p", reply="_INBOX.1"), hop(2, "p", reply="_INBOX.2"), hop(3, "p")]
    hops = [hop(4, "r", reply="_INBOX.2"), hop(5, "r"), hop(6, "r", reply="_INBOX.9")]
    assert matched(ours, hops) == {1: [], 2: [(4, "unique")], 3: [(5, "unique")]}


def test_unique_messages_confine_the_doubt_of_a_gap() -> None:
    """Published: u1 x x u2 x u3 x x u4. The line lacks bytes between u2 and u3."""
    ours = [
        hop(at, "p", text) for at, text in enumerate(["u1", *"xx", "u2", "x", "u3", *"xx", "u4"], 1)
    ]
    theirs = [one._replace(session="r", ts_ns=at, number=at) for at, one in enumerate(ours, 11)]
    torn = [("r", "responder", 16)]
    found = matched(ours, theirs, torn=torn)
    assert {number: hops for number, hops in found.items() if number in (2, 3, 5, 7, 8)} == {
        2: [(12, "ordered")],
        3: [(13, "ordered")],
        5: [],
        7: [(17, "ordered")],
        8: [(18, "ordered")],
    }
    # One that is lost in the gap, and one that is published twice, are as many as they should be.
    lost = [one for one in theirs if one.number != 15]
    assert matched(ours, lost, torn=torn) == found
    assert matched(ours, theirs)[5] == [(15, "ordered")]


def test_more_hops_than_publications_between_two_anchors_prove_nothing_at_all() -> None:
    ours = [hop(at, "p", text) for at, text in enumerate(["u1", "x", "u2", "x", "u3"], 1)]
    theirs = [one._replace(session="r", ts_ns=at, number=at) for at, one in enumerate(ours, 11)]
    extra = [hop(20, "s"), hop(21, "s"), hop(22, "s")]
    assert matched(ours, [*theirs, *extra])[2] == []
