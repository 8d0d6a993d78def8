"""Sessions that show the same connection."""

from __future__ import annotations

from dissect.nats.sessions.same import PLACES, Sighting, copy_of, same_sessions


def names(*sightings: Sighting) -> dict[str, list[str]]:
    return {
        session: [other.session for other in others]
        for session, others in same_sessions(sightings).items()
    }


def test_sessions_that_overlap_name_each_other_in_order_of_time() -> None:
    a, b, c = Sighting(3, "a", 9), Sighting(1, "b", 5), Sighting(2, "c", 5)
    assert names(a, b, c) == {"a": ["b", "c"], "b": ["c", "a"], "c": ["b", "a"]}


def test_the_moment_of_one_packet_is_an_overlap() -> None:
    assert names(Sighting(1, "a", 5), Sighting(5, "b", 9)) == {"a": ["b"], "b": ["a"]}


def test_a_later_part_of_a_connection_stays_apart() -> None:
    assert names(Sighting(1, "a", 5), Sighting(6, "b", 9)) == {"a": [], "b": []}


def test_a_server_that_gives_everybody_the_same_number_proves_nothing() -> None:
    many = [Sighting(1, f"{number:03}", 9) for number in range(PLACES + 1)]
    assert not names(*many)
    assert len(names(*many[1:])["001"]) == PLACES - 1


def test_each_but_the_first_is_a_copy() -> None:
    a, b, c = Sighting(1, "a", 9), Sighting(2, "b", 9), Sighting(2, "c", 9)
    assert [copy_of(a, [b, c]), copy_of(b, [a, c]), copy_of(c, [a, b])] == [None, "a", "a"]
    assert copy_of(b, [c]) is None, "at the same time, the order of ids decides"
    assert copy_of(c, []) is None
