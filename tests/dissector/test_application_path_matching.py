"""Which hops belong to which publication: proven ones, and no others."""

from __future__ import annotations

from collections.abc import Container, Iterable

from dissect.nats.application.path_hops import Hop, Side
from dissect.nats.application.path_matching import ways


def hop(
    ts_ns: int,
    session: str,
    content: str = "x",
    *,
    sender: str = "responder",
    reply: str | None = None,
    place: tuple[str, int] | None = None,
    attempt: int = 1,
    account: str | None = None,
) -> Hop:
    body = content.encode()
    kind = ("client", "MSG", account, "subject", "1", reply, body, place, attempt)
    return Hop(ts_ns, session, ts_ns, sender, *kind)


def matched(
    publications: Iterable[Hop],
    hops: Iterable[Hop],
    places: dict[tuple[str, int], Hop] | None = None,
    torn: Container[Side] = (),
) -> dict[int, list[tuple[int, str]]]:
    """Time of each publication -> times of its hops, and what they were matched by."""
    return {
        way.publication.ts_ns: [(match.hop.ts_ns, match.matched_by) for match in way.hops]
        for way in ways(publications, hops, places or {}, torn)
    }


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
    assert [way.copies for way in ways(ours, [], {})] == [3, 3, 3]


def test_more_hops_on_one_line_leave_the_others_unproven_too() -> None:
    assert matched([hop(1, "p")], [hop(2, "r"), hop(3, "s"), hop(4, "s")]) == {1: []}


def test_where_bytes_are_missing_equal_numbers_prove_nothing() -> None:
    ours, theirs = [hop(1, "p"), hop(2, "p")], [hop(4, "r"), hop(5, "r")]
    whole = {1: [(4, "ordered")], 2: [(5, "ordered")]}
    assert matched(ours, theirs, torn={("q", "responder"), ("r", "originator")}) == whole
    for session in "pr":
        assert matched(ours, theirs, torn={(session, "responder")}) == {1: [], 2: []}
    assert matched(ours[:1], theirs[:1], torn={("p", "responder")}) == {1: [(4, "unique")]}


def test_a_hop_before_its_publication_proves_that_another_is_missing() -> None:
    assert matched([hop(1, "p"), hop(9, "p")], [hop(2, "r"), hop(8, "r")]) == {1: [], 9: []}


def test_equal_ones_of_several_publishers_are_told_apart_by_time_only() -> None:
    ours = [hop(1, "p"), hop(5, "q")]
    assert matched(ours, [hop(2, "r"), hop(6, "r")]) == {1: [(2, "time")], 5: [(6, "time")]}
    assert matched(ours, [hop(6, "r"), hop(7, "r")]) == {1: [], 5: []}


def test_accounts_are_not_mixed() -> None:
    hops = [hop(3, "r", account="A"), hop(4, "r", account="B")]
    assert matched([hop(1, "p"), hop(2, "p")], hops) == {1: [], 2: []}


def test_a_stored_message_is_known_by_its_place() -> None:
    ours = [hop(1, "p", reply="_INBOX.1"), hop(2, "p", reply="_INBOX.2")]
    hops = [hop(5, "r", place=("S", 2)), hop(6, "r", place=("S", 2), attempt=2)]
    places = {("S", 1): ours[0], ("S", 2): ours[1]}
    assert matched(ours, hops, places) == {1: [], 2: [(5, "unique"), (6, "unique")]}
    # Without acks, content and order are left, of first attempts only.
    hops = [hop(5, "r", place=("S", 1)), hop(6, "r", place=("S", 2)), hop(7, "r", place=("S", 1))]
    hops[2] = hops[2]._replace(attempt=2)
    assert matched(ours, hops) == {1: [(5, "ordered")], 2: [(6, "ordered")]}


def test_the_reply_tells_requests_apart() -> None:
    ours = [hop(1, "p", reply="_INBOX.1"), hop(2, "p", reply="_INBOX.2"), hop(3, "p")]
    hops = [hop(4, "r", reply="_INBOX.2"), hop(5, "r"), hop(6, "r", reply="_INBOX.9")]
    assert matched(ours, hops) == {1: [], 2: [(4, "unique")], 3: [(5, "unique")]}
