"""The hops of one publication -> the rows of `paths`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Annotated

from ...number_formats import duration_text
from ...schema.anomalies import Anomaly
from ...schema.declaration import Group, TextColumn
from ...schema.records import Record
from ..rows import TIME, lasting
from .clocks import Clocks
from .facts import Facts
from .hops import Hop
from .items import Match, alone, first_items, message_in


def is_named(message: str, name: str) -> bool:
    """Whether a name is that of a message: `SESSION:NUMBER`, of which the beginning of SESSION is enough."""
    session, _, number = name.rpartition(":")
    return message.startswith(session) and message.endswith(f":{number}")


def _equal(row: PathRecord) -> str:
    if row.copies is None:
        return "many"
    return "" if row.copies == 1 else str(row.copies)


def _clock(row: PathRecord) -> str:
    """The correction of the clock, with its sign."""
    if row.clock_ns is None:
        return ""
    return ("+" if row.clock_ns > 0 else "") + duration_text(row.clock_ns)


@dataclass(slots=True, kw_only=True)
class PathRecord(Record):
    """One hop of a message."""

    message: Annotated[
        str, "the message: `SESSION:NUMBER` of its publication", TextColumn("message", 20)
    ]
    hop: Annotated[
        int,
        "number of the hop: 1 is the publication; the others follow in order of time, each "
        "after the hop that brought the message",
        TextColumn("hop", 3),
    ]
    session: Annotated[str, "session of the frame"]
    same_as: Annotated[
        list[str] | None,
        "other sessions that show the same connection: their frames are not followed again",
        TextColumn("seen twice in", 16, render=", ".join, may_cut=True, rank=4),
    ] = None
    number: Annotated[int, "number of the frame"]
    sender: Annotated[str, "who sent the frame: originator or responder"]
    kind: Annotated[str, "kind of the connection", TextColumn("kind", 8, rank=3)]
    op: Annotated[str, "operation of the frame", TextColumn("op", 4)]
    from_server: Annotated[
        str | None,
        "server that sent the frame; absent for a client",
        TextColumn("from", 12, lambda row: row.from_server or "client", may_cut=True),
    ] = None
    to_server: Annotated[
        str | None,
        "server that received the frame; absent for a client",
        TextColumn("to", 12, lambda row: row.to_server or "client", may_cut=True),
    ] = None
    subject: Annotated[
        str,
        "subject in the frame, which a mapping or an import may have changed",
        TextColumn("subject", 20, may_cut=True),
    ]
    account: Annotated[str | None, "account, if the frame names it"] = None
    ts_ns: Annotated[int, "time of the frame, with `clock_ns` added", TIME]
    since_ns: Annotated[
        int | None,
        "time since the hop that brought the message to the sending server",
        lasting("since"),
    ] = None
    total_ns: Annotated[int | None, "time since the publication"] = None
    matched_by: Annotated[
        str | None,
        "proof of the hop: unique (content, or JetStream's sequence), ordered (among equal "
        "messages of one publisher), time, mapped (content, under another subject or "
        "reply), or group (it carries one of the equal messages of several publishers); absent for "
        "the publication",
        TextColumn("by", 7),
    ] = None
    passed: Annotated[
        int | None,
        "number of frames on this connection and subscription that carry one of the equal messages, "
        "if `matched_by` is group: the row, under the first of the messages, shows the first frame",
        TextColumn("passed", 6),
    ] = None
    copies: Annotated[
        int | None,
        "number of publications equal to this one, itself included; absent if there are too "
        "many",
        TextColumn("equal", 5, _equal, right=True),
    ] = 1
    clock_ns: Annotated[
        int | None,
        "correction of the clock of the capture, if messages from or to another capture "
        "arrived before they were sent",
        TextColumn("clock", 9, _clock, right=True, rank=2),
    ] = None
    clock_error_ns: Annotated[
        int | None,
        "maximum error of the correction; absent if only messages in one direction were seen,"
        " whose smallest possible correction it is",
    ] = None
    anomalies: Annotated[
        list[str] | None,
        "forgotten, if hops or servers are missing because there are too many equal messages "
        "or connections",
    ] = None


def rows_of(groups: Iterator[Group], facts: Facts, clocks: Clocks) -> Iterator[PathRecord]:
    """MESSAGES: the rows of each publication."""
    for group in groups:
        only, group = alone(group)
        if only:
            match, count = message_in(only)
            if not match.matched_by:
                yield _alone(match.hop, count, facts, clocks)
            continue
        items, is_all = first_items(group)
        publication: Hop | None = None
        copies: int | None = None
        matches: list[Match] = []
        for match, count in map(message_in, chain(items, group)):
            if not match.matched_by:
                publication, copies = match.hop, count
            elif is_all:
                matches.append(match)
        if publication:
            is_missing = facts.is_full or copies is None or not is_all
            yield from _Way(publication, matches, facts, clocks).rows(copies, is_missing)


def _alone(one: Hop, copies: int | None, facts: Facts, clocks: Clocks) -> PathRecord:
    """The row of a publication without hops, for which `_Way` takes twice as long. In captures of a few
    connections, most publications have none."""
    sender, receiver = facts.sender(one), facts.receiver(one)
    correction = clocks.correction(one.tap)
    is_missing = facts.is_full or copies is None
    return PathRecord(
        message=f"{one.session}:{one.number}",
        hop=1,
        session=one.session,
        same_as=facts.same.get(one.session),
        number=one.number,
        sender=one.sender,
        kind=one.kind,
        op=one.op,
        from_server=facts.names.get(sender, sender) if sender else None,
        to_server=facts.names.get(receiver, receiver) if receiver else None,
        subject=one.subject,
        account=one.account,
        ts_ns=one.ts_ns + correction.ns if correction else one.ts_ns,
        copies=copies,
        clock_ns=correction.ns if correction else None,
        clock_error_ns=correction.error_ns if correction else None,
        anomalies=[Anomaly.FORGOTTEN.value] if is_missing else None,
    )


class _Way:
    """A publication and its hops."""

    def __init__(
        self, publication: Hop, matches: list[Match], facts: Facts, clocks: Clocks
    ) -> None:
        self._publication = publication
        self._matches = matches
        self._facts = facts
        self._clocks = clocks
        # The frame that brought the message to each server, and its time.
        self._came: dict[str, tuple[int, Hop]] = {}
        for server, hops in facts.entries(publication, (match.hop for match in matches)).items():
            self._came[server] = min((clocks.time(hop), hop) for hop in hops)

    def rows(self, copies: int | None, is_missing: bool) -> Iterator[PathRecord]:
        """All rows, in order. `is_missing` is true if hops or servers may be missing."""
        one, facts, clocks = self._publication, self._facts, self._clocks
        message = f"{one.session}:{one.number}"
        began_ns = clocks.time(one)
        anomalies = [Anomaly.FORGOTTEN.value] if is_missing else None
        ordered = self._matches
        if len(ordered) > 1:
            ordered = sorted(ordered, key=lambda match: self._position(match.hop))
        for at, (hop, matched_by, passed) in enumerate([Match(one, ""), *ordered], 1):
            is_timed = at > 1 and not passed  # which message of a group it is, is unknown
            ts_ns = clocks.time(hop)
            sender, receiver = facts.sender(hop), facts.receiver(hop)
            came_ns, _ = self._came.get(sender or "", (began_ns, one))
            correction = clocks.correction(hop.tap)
            yield PathRecord(
                message=message,
                hop=at,
                session=hop.session,
                same_as=facts.same.get(hop.session),
                number=hop.number,
                sender=hop.sender,
                kind=hop.kind,
                op=hop.op,
                from_server=facts.names.get(sender, sender) if sender else None,
                to_server=facts.names.get(receiver, receiver) if receiver else None,
                subject=hop.subject,
                account=hop.account,
                ts_ns=ts_ns,
                since_ns=ts_ns - came_ns if is_timed else None,
                total_ns=ts_ns - began_ns if is_timed else None,
                matched_by=matched_by or None,
                passed=passed or None,
                copies=copies,
                clock_ns=correction.ns if correction else None,
                clock_error_ns=correction.error_ns if correction else None,
                anomalies=anomalies,
            )

    def _position(self, hop: Hop) -> tuple[int, int, str, int]:
        """The position of a hop: by time, but after the hop that brought the message, whatever clocks say."""
        ts_ns, depth = self._clocks.time(hop), 0
        cause = self._came.get(self._facts.sender(hop) or "")
        while cause and cause[1] is not self._publication and depth <= len(self._came):
            depth += 1
            ts_ns = max(ts_ns, cause[0])
            cause = self._came.get(self._facts.sender(cause[1]) or "")
        return ts_ns, depth, hop.session, hop.number
