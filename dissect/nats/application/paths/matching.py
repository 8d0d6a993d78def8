"""Matches hops to publications by uniqueness, order or time. Hops that none of these proves stay unmatched.

Publications are equal if subject, reply, headers and payload are. A publication that equals no other owns
every hop with its content. If one publisher sends several equal ones, the first hop on each line (connection,
direction, subscription) belongs to the first one, and so on, because a line keeps the order of a publisher's
messages; the line must have as many hops as there are publications. Equal ones by several publishers are told
apart by time, if each hop comes before the next publication, within the error of the clocks. If any line has
more hops than there are publications, some publications are not in the capture, so no hop is certain.
Otherwise, where time does not tell them apart, the hops of a line are counted, as those of the group.
If bytes are missing, on a line or from a publisher of equal messages, equal numbers prove nothing, because
both a publication and a hop may be lost. Unique messages of the same publisher on the same line limit this
doubt to the messages between the last one before the gap and the first one after it.
A delivery of JetStream names stream and sequence, as the PubAck of its publication does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

from ...schema.declaration import Group, LayerItem
from .answers import answer_items, empty_items, swap_items
from .clocks import Clocks
from .evidence import Anchors, HopEvidence, Interval
from .facts import Facts
from .hops import Hop, Line
from .items import (
    CONTENTS,
    EQUALS,
    PLACES,
    Match,
    alone,
    equal_key,
    first_items,
    hop_in,
    hop_item,
    hops_in,
    is_ack,
    key_of,
    match_items,
    publication_item,
)
from .mapping import mapped

Lines = dict[Line, list[Hop]]
_number = attrgetter("number")


def match_asks(groups: Iterator[Group], facts: Facts) -> Iterator[LayerItem]:
    """ASKS: finds where publications are stored, by their acks. A reply subject that is used again must have
    as many acks, all from one stream, because one stream acks in order."""
    for group in facts.followed(groups):
        only, group = alone(group)
        if only:
            continue
        items, is_all = first_items(group)
        acks = [item for item in items if is_ack(item)]
        waiting = [hop_in(item) for item in items if not is_ack(item)]
        if not is_all or len(acks) != len(waiting):
            continue
        places = [item.body for item in sorted(acks, key=lambda item: item.number)]
        if len(acks) > 1:
            session = acks[0].session
            sides = (session, "originator"), (session, "responder")
            if any(map(facts.is_torn, sides)) or len({stream for stream, _ in places}) > 1:
                continue
        for one, (stream, sequence) in zip(waiting, places):
            yield hop_item(PLACES, key_of(str(stream), str(sequence)), one)


def match_stored(groups: Iterator[Group], facts: Facts) -> Iterator[LayerItem]:
    """PLACES: matches deliveries to the one publication that was stored there. Several accounts or systems
    may have a stream of that name: then the place is ambiguous, and content has to decide; so it has if the
    only publication that was captured has other contents."""
    evidence = HopEvidence(facts)
    for group in facts.followed(groups):
        items, is_all = first_items(group)
        hops = [*hops_in(items)]
        claims = [hop for hop in hops if hop.is_publication]
        matches: list[Match] = []
        for hop in chain(hops, map(hop_in, group)):
            if hop.is_publication:
                continue
            if len(claims) == 1 and is_all and _may_be(claims[0], hop) and _agree(claims[0], hop):
                matches.append(Match(hop, "unique"))
            elif hop.attempt == 1:
                yield hop_item(CONTENTS, hop.content, hop)
        if matches:
            evidence.add(claims[0], matches)
            yield from match_items(claims[0], matches)
    yield from evidence.items()


def _may_be(publication: Hop, hop: Hop) -> bool:
    """Whether time allows the hop: by the clock of one capture, no hop comes before its publication."""
    return publication.tap != hop.tap or hop.ts_ns >= publication.ts_ns


def _agree(publication: Hop, hop: Hop) -> bool:
    """Whether a delivery of JetStream may have the contents of a publication."""
    if publication.is_changed or hop.is_changed or not (publication.size or hop.size):
        return True
    return publication.content == hop.content


@dataclass(slots=True)
class _Equals:
    """Equal publications, and the frames that may carry them, by line. `is_stored` is true if the frames come
    from JetStream, which replaces the reply of a publication by its own."""

    publications: list[Hop]
    lines: Lines = field(default_factory=dict)
    is_stored: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether no line has more hops than there are publications."""
        return all(len(line) <= len(self.publications) for line in self.lines.values())


def match_unique(groups: Iterator[Group], facts: Facts) -> Iterator[LayerItem]:
    """CONTENTS: yields all publications, and the hops of those that equal no other one."""
    evidence = HopEvidence(facts)
    for group in facts.followed(groups):
        only, group = alone(group)
        if only:
            hop = hop_in(only)
            if hop.is_publication:
                yield publication_item(hop, 1)
                yield from answer_items([hop], (), {}, facts)
            else:
                yield from empty_items([hop])
            continue
        items, is_all = first_items(group)
        if not is_all:
            for hop in chain(hops_in(items), map(hop_in, group)):
                if hop.is_publication:
                    yield publication_item(hop, None)
            continue
        hops = [*hops_in(items)]
        publications = [hop for hop in hops if hop.is_publication]
        if publications:
            yield from _unique(publications, hops, facts, evidence)
        else:
            yield from empty_items(hops)
    yield from evidence.items()


def _unique(
    publications: list[Hop], hops: list[Hop], facts: Facts, evidence: HopEvidence
) -> Iterator[LayerItem]:
    """The items for one content."""
    by_reply: dict[tuple[str, str | None], list[Hop]] = {}
    by_subject: dict[str, list[Hop]] = {}
    for one in publications:
        by_reply.setdefault((one.subject, one.reply), []).append(one)
        by_subject.setdefault(one.subject, []).append(one)
    for one in publications:
        yield publication_item(one, len(by_reply[one.subject, one.reply]))
    equals: dict[tuple[str, str | None, bool], _Equals] = {}
    others: list[Hop] = []
    for hop in hops:
        if hop.is_publication:
            continue
        is_stored = hop.place is not None
        if is_stored:
            found = by_subject.get(hop.subject)
        else:
            found = by_reply.get((hop.subject, hop.reply))
        if found:
            key = hop.subject, hop.reply, is_stored
            equal = equals.setdefault(key, _Equals(found, {}, is_stored))
            equal.lines.setdefault(hop.line, []).append(hop)
        elif not is_stored:
            others.append(hop)
    matches: dict[Hop, list[Match]] = {}
    for (subject, reply, is_stored), equal in equals.items():
        if len(equal.publications) > 1:
            key_bytes = equal_key(publications[0], subject, reply, is_stored)
            for hop in chain(equal.publications, *equal.lines.values()):
                yield hop_item(EQUALS, key_bytes, hop)
        elif equal.is_certain:
            (one,) = equal.publications
            sure = [hop for (hop,) in equal.lines.values() if _may_be(one, hop)]
            matches.setdefault(one, []).extend(Match(hop, "unique") for hop in sure)
    if others and len(publications) == 1:
        exact = matches.setdefault(publications[0], [])
        found_others = [*mapped(publications[0], [match.hop for match in exact], others, facts)]
        exact += found_others
        yield from swap_items(publications[0], found_others)
    yield from answer_items(publications, others, matches, facts)
    for one, found_matches in matches.items():
        evidence.add(one, [match for match in found_matches if match.matched_by == "unique"])
        yield from match_items(one, found_matches)


def match_equal(
    groups: Iterator[Group], facts: Facts, clocks: Clocks, anchors: Anchors
) -> Iterator[LayerItem]:
    """EQUALS: yields the hops of equal publications, as far as order and time prove them."""
    for group in groups:
        items, is_all = first_items(group)
        hops = [*hops_in(items)] if is_all else []
        publications = [hop for hop in hops if hop.is_publication]
        found = _Equals(publications)
        for hop in hops:
            if not hop.is_publication:
                found.lines.setdefault(hop.line, []).append(hop)
                found.is_stored = hop.place is not None
        for one, match in matches_of(found, facts, clocks, anchors):
            yield from match_items(one, [match])


def matches_of(
    equals: _Equals, facts: Facts, clocks: Clocks, anchors: Anchors
) -> Iterator[tuple[Hop, Match]]:
    """Equal publications, each with a hop that certainly belongs to it; the first one also with those of the
    group."""
    publications = equals.publications
    publishers = {one.line for one in publications}
    if len(publishers) > 1:
        is_torn = any(facts.is_torn(one.side) for one in publications)
        if is_torn or not equals.is_certain:
            return
        publications = sorted(publications, key=lambda one: (clocks.time(one), one[:3]))
        for line in equals.lines.values():
            line = sorted(line, key=lambda hop: hop.number)
            proven = [] if facts.is_torn(line[0].side) else [*_by_time(publications, line, clocks)]
            yield from proven or _of_group(publications, line, clocks)
        return
    publications = sorted(publications, key=lambda one: one.number)
    parts: list[tuple[list[Hop], list[Hop]]] = []
    for key, line in equals.lines.items():
        line = sorted(line, key=lambda hop: hop.number)
        known = Anchors() if equals.is_stored else anchors
        for interval in known.intervals(facts, publications[0].side, key):
            ours, theirs = _within(interval, publications, line)
            if interval.is_whole and len(theirs) > len(ours):
                return  # another publisher sends the same
            if interval.is_whole and len(theirs) == len(ours):
                parts.append((ours, theirs))
    for ours, theirs in parts:
        if not _is_of_several_accounts(theirs) and _in_time(ours, theirs, clocks):
            yield from zip(ours, (Match(hop, "ordered") for hop in theirs))


def _within(
    interval: Interval, publications: list[Hop], line: list[Hop]
) -> tuple[list[Hop], list[Hop]]:
    """The publications and hops of a interval; both lists are in order of their numbers."""
    start, stop = interval.start, interval.stop
    return (
        _between(publications, start.published, stop.published),
        _between(line, start.carried, stop.carried),
    )


def _between(hops: list[Hop], start: int, stop: int) -> list[Hop]:
    """The hops with numbers between the two, by bisection, because a line may have thousands of intervals."""
    return hops[bisect_right(hops, start, key=_number) : bisect_left(hops, stop, key=_number)]


def _by_time(
    publications: list[Hop], line: list[Hop], clocks: Clocks
) -> Iterator[tuple[Hop, Match]]:
    """Hops of equal publications by several publishers: each has to come before the next publication."""
    if len(line) != len(publications) or _is_of_several_accounts(line):
        return
    taps = {hop.tap for hop in chain(publications, line)}
    errors = [clocks.error(one, other) for one in taps for other in taps]
    if None in errors:
        return
    error = max(filter(None, errors), default=0)
    times = [clocks.time(one) for one in publications]
    arrived = [clocks.time(hop) for hop in line]
    is_after = all(hop >= at + error for hop, at in zip(arrived, times))
    if is_after and all(hop + error < later for hop, later in zip(arrived, times[1:])):
        yield from zip(publications, (Match(hop, "time") for hop in line))


def _of_group(
    publications: list[Hop], line: list[Hop], clocks: Clocks
) -> Iterator[tuple[Hop, Match]]:
    """The hops of equal publications by several publishers that nothing tells apart: one, with their
    number."""
    if not _is_of_several_accounts(line) and _in_time(publications, line, clocks):
        yield publications[0], Match(line[0], "group", len(line))


def _in_time(publications: Iterable[Hop], line: Iterable[Hop], clocks: Clocks) -> bool:
    """Whether no hop comes before its publication. One that does proves that a publication is missing."""
    return all(
        clocks.time(hop) + (clocks.error(one.tap, hop.tap) or 0) >= clocks.time(one)
        for one, hop in zip(publications, line)
    )


def _is_of_several_accounts(line: list[Hop]) -> bool:
    """Whether the hops belong to several accounts: then content alone proves nothing."""
    return len({hop.account for hop in line}) > 1
