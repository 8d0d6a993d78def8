"""Which hops belong to which publication: by what is unique, by order, by time; otherwise not at all.

Publications are equal if subject, reply, headers and payload are. A publication that is equal to no other
one owns every hop with its content. Of several equal ones by one publisher, the first hop on each line
(connection, direction, subscription) is of the first one, and so on, since messages of one publisher keep
their order there; this holds where a line has as many hops as there are publications. Equal ones by several
publishers are told apart by time only where each hop comes before the next publication.
Where bytes are missing, on a line or from a publisher of equal messages, equal numbers prove nothing: both a
publication and a hop may be lost. And where any line has more hops than there are publications, some of these
are not in the capture, so that none of the hops is certain.
A delivery of JetStream says stream and sequence, as the PubAck of its publication does.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from .path_hops import Hop, Side

Key = tuple[str, str | None, bytes]


class Match(NamedTuple):
    """A hop of a publication, by which means it is known: `unique`, `ordered` or `time`."""

    hop: Hop
    matched_by: str


class Way(NamedTuple):
    """A publication with its hops; `copies` publications are equal to it, itself included."""

    publication: Hop
    copies: int
    hops: list[Match]


def ways(
    publications: Iterable[Hop],
    hops: Iterable[Hop],
    places: dict[tuple[str, int], Hop],
    torn: Container[Side] = (),
) -> Iterator[Way]:
    """The way of each publication. All are in order of time; `places` are the publications whose PubAck says
    where they are stored, `torn` the sides of connections that lack bytes."""
    by_key: dict[Key, list[Way]] = {}
    by_content: dict[tuple[str, bytes], list[Way]] = {}
    found: dict[tuple[str, int], Way] = {}
    for one in publications:
        way = Way(one, 0, [])
        found[one.session, one.number] = way
        by_key.setdefault((one.subject, one.reply, one.content), []).append(way)
        by_content.setdefault((one.subject, one.content), []).append(way)
    lines: dict[tuple[Key, bool], dict[tuple[str, str, str], list[Hop]]] = {}
    for hop in hops:
        stored = places.get(hop.place) if hop.place else None
        if stored:
            found[stored.session, stored.number].hops.append(Match(hop, "unique"))
            continue
        if hop.attempt == 1:
            kind = (hop.subject, hop.reply, hop.content), hop.place is not None
            lines.setdefault(kind, {}).setdefault(hop.line, []).append(hop)
    for (key, is_stored), by_line in lines.items():
        # JetStream replaces the reply of a publication by one of its own.
        equal = by_content.get((key[0], key[2]), []) if is_stored else by_key.get(key, [])
        if any(len(line) > len(equal) for line in by_line.values()):
            continue
        is_torn = len(equal) > 1 and any(way.publication.side in torn for way in equal)
        for line in by_line.values():
            if is_torn or (len(equal) > 1 and line[0].side in torn):
                continue
            for way, match in _matched(equal, line):
                way.hops.append(match)
    for way in found.values():
        one = way.publication
        copies = len(by_key[one.subject, one.reply, one.content])
        yield Way(one, copies, sorted(way.hops, key=lambda match: match.hop[:3]))


def _matched(equal: list[Way], line: list[Hop]) -> Iterator[tuple[Way, Match]]:
    """The hops of one line, each with the publication that it surely is."""
    if len(equal) == 1:
        if not _is_of_several_accounts(line):
            yield equal[0], Match(line[0], "unique")
        return
    if len(equal) != len(line) or _is_of_several_accounts(line):
        return
    times = [way.publication.ts_ns for way in equal]
    if any(hop.ts_ns < at for hop, at in zip(line, times)):
        return  # a hop before its publication: another one of them is missing
    if len({way.publication.line for way in equal}) == 1:
        yield from zip(equal, (Match(hop, "ordered") for hop in line))
    elif all(hop.ts_ns < later for hop, later in zip(line, times[1:])):
        yield from zip(equal, (Match(hop, "time") for hop in line))


def _is_of_several_accounts(line: list[Hop]) -> bool:
    """Whether hops of several accounts look alike: then content alone proves nothing."""
    return len({hop.account for hop in line}) > 1
