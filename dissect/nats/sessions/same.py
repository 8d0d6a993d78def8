"""Sessions that show the same connection: before and after address translation, or on both sides of a proxy.

A server numbers its connections, never uses a number twice, and takes a new `server_id` at each start. So two
sessions whose INFO has the same `server_id` and `client_id` show one connection. Where their times do not
overlap, one of them may be a later part of the other, and where there are very many, the server is none that
numbers its connections: then they stay apart, as sessions without INFO do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

PLACES = 64
"""The most sessions that may show one connection. Packets pass far fewer places."""


class Sighting(NamedTuple):
    """A session, and the times of its first and last packet."""

    first_ns: int
    session: str
    last_ns: int


def same_sessions(sightings: Sequence[Sighting]) -> dict[str, list[Sighting]]:
    """The other sessions that show the same connection, in order of time, by session. `sightings` are all
    sessions with one `server_id` and `client_id`."""
    if len(sightings) > PLACES:
        return {}
    ordered = sorted(sightings)
    return {
        one.session: [other for other in ordered if other is not one and _overlap(one, other)]
        for one in ordered
    }


def copy_of(one: Sighting, others: Sequence[Sighting]) -> str | None:
    """The first of the `others` that show the same connection, if it began before this session."""
    first = min(others, default=one)
    return first.session if first < one else None


def _overlap(one: Sighting, other: Sighting) -> bool:
    return one.first_ns <= other.last_ns and other.first_ns <= one.last_ns
