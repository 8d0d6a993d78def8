"""The facts about all sessions that `paths` needs: the servers at their ends, gaps, and captures.

`SessionFacts` collects them for one session; `Facts` has them for all sessions, and is sent to every task. It
is small: it has an entry per connection, and one per gap up to a limit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import cast

from ...schema.declaration import Group, LayerFrame, LayerItem, Work
from ...sessions.same import Sighting, copy_of, same_sessions
from ..json_bodies import read_object, text
from ..messages import LINKS, OTHER
from ..servers import connection_in, describes_sender
from .hops import Hop, SessionSide
from .items import SESSIONS, key_of

# Connections whose facts are kept. If there are more, servers are missing, and rows have the anomaly
# `forgotten`.
CONNECTIONS = 1 << 16
GAPS = 4096
"""The limit on gaps that are counted on each side of a connection. After that many, nothing is known to be
without a gap."""
_CAPTURES = 256  # captures, and names of servers, that are noted for one connection


@dataclass(slots=True)
class SessionFacts:
    """The facts about one session. `ends` has the servers at its ends by sender, as they first identified
    themselves, and `names` the names of servers by id; `gaps` has the numbers of the frames that follow a
    gap, by sender, and `taps` the captures that have its frames. `connection` is what sessions that show the
    same connection have in common, see `sessions.same`; `times` are those of the first and last frame.
    """

    ends: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    gaps: dict[str, list[int]] = field(default_factory=dict)
    taps: list[str] = field(default_factory=list)
    connection: tuple[str, int] | None = None
    times: tuple[int, int] | None = None
    _next: dict[str, int] = field(default_factory=dict)  # where the next frame of a sender begins

    def look(self, frame: LayerFrame) -> None:
        """Notes the capture of a frame, and whether bytes are missing before it."""
        sender, ts_ns = frame.sender, frame.ts_ns
        first_ns, last_ns = self.times or (ts_ns, ts_ns)
        self.times = min(first_ns, ts_ns), max(last_ns, ts_ns)
        if self._next.get(sender, frame.offset) != frame.offset:
            gaps = self.gaps.setdefault(sender, [])
            if len(gaps) < GAPS:
                gaps.append(frame.number)
        self._next[sender] = frame.offset + frame.total_bytes
        if (not self.taps or self.taps[-1] != frame.capture) and len(self.taps) < _CAPTURES:
            self.taps.append(frame.capture)

    def meet(self, frame: LayerFrame) -> None:
        """Notes the server that sent an INFO or CONNECT; the first names on a connection count."""
        read = read_object((frame.json or "").encode("utf-8", "replace"))
        if read is None or (frame.op == "CONNECT" and frame.kind not in LINKS):
            return
        if frame.op == "INFO" and not describes_sender(read):
            return
        name = text(read, "server_name") or text(read, "name")
        key = text(read, "server_id") or name
        if frame.op == "INFO" and frame.sender == "responder" and not self.connection:
            self.connection = connection_in(read)
        if key:
            self.ends.setdefault(frame.sender, key)
            if name and name != key and len(self.names) < _CAPTURES:
                self.names[key] = min(name, self.names.get(key, name))

    def item(self, session: str) -> LayerItem:
        """The item with these facts, for SESSIONS."""
        body = self.ends, self.names, self.gaps, self.taps, self.connection, self.times
        return LayerItem(SESSIONS, key_of(session), 0, session, 0, body)


@dataclass(slots=True)
class Facts:
    """The facts of all sessions. `is_full` is true if the facts of some are missing. `same` has the other
    sessions that show the same connection, by session; `copies` are all of them but the first, whose frames
    are not followed."""

    ends: dict[str, dict[str, str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    gaps: dict[SessionSide, list[int]] = field(default_factory=dict)
    taps: set[str] = field(default_factory=set)
    is_full: bool = False
    same: dict[str, list[str]] = field(default_factory=dict)
    copies: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, work: Work) -> Facts:
        """The facts in the items of SESSIONS."""
        return cls.gathered(work.first(SESSIONS, CONNECTIONS + 1))

    @classmethod
    def gathered(cls, items: Iterable[LayerItem]) -> Facts:
        """The facts in these items."""
        facts = cls()
        sightings: dict[tuple[str, int], list[Sighting]] = {}
        for at, item in enumerate(items):
            if at == CONNECTIONS:
                facts.is_full = True
                break
            *some, connection, times = item.body
            facts._add(item.session, some)
            if connection and times:
                first_ns, last_ns = cast("tuple[int, int]", times)
                known = sightings.setdefault(cast("tuple[str, int]", connection), [])
                known.append(Sighting(first_ns, item.session, last_ns))
        for of_one in sightings.values():
            facts._join(of_one)
        return facts

    def _join(self, sightings: list[Sighting]) -> None:
        """Notes the sessions that show the same connection."""
        same = same_sessions(sightings)
        for one in sightings:
            if others := same.get(one.session):
                self.same[one.session] = [other.session for other in others]
                if copy_of(one, others):
                    self.copies.add(one.session)

    def _add(self, session: str, body: list[object]) -> None:
        ends, names, gaps, taps = cast(
            "tuple[dict[str, str], dict[str, str], dict[str, list[int]], list[str]]", body
        )
        if ends:
            self.ends[session] = ends
        for key, name in names.items():
            self.names[key] = min(name, self.names.get(key, name))
        for sender, numbers in gaps.items():
            self.gaps[session, sender] = numbers
        self.taps.update(taps)

    def followed(self, groups: Iterable[Group]) -> Iterator[Group]:
        """The groups of items, without those of sessions that show a connection again."""
        copies = self.copies
        if not copies:
            yield from groups
            return
        for group in groups:
            left = (item for item in group if item.session not in copies)
            if (first := next(left, None)) is not None:
                yield chain([first], left)

    def gaps_before(self, side: SessionSide, number: int) -> int:
        """The number of gaps that a side has before one of its frames, at most GAPS."""
        return bisect_right(self.gaps.get(side, ()), number)

    def is_torn(self, side: SessionSide) -> bool:
        """Whether a side lacks bytes anywhere."""
        return side in self.gaps

    def sender(self, hop: Hop) -> str | None:
        """The id of the server that sent a frame; None for a client."""
        ends = self.ends.get(hop.session)
        return ends.get(hop.sender) if ends else None

    def receiver(self, hop: Hop) -> str | None:
        """The id of the server that got a frame; None for a client."""
        ends = self.ends.get(hop.session)
        return ends.get(OTHER[hop.sender]) if ends else None

    def entries(self, publication: Hop, hops: Iterable[Hop]) -> dict[str, list[Hop]]:
        """The frames that brought a message to each server, by the server's id: the publication, and hops."""
        found: dict[str, list[Hop]] = {}
        for hop in chain((publication,), hops):
            receiver = self.receiver(hop)
            if receiver:
                found.setdefault(receiver, []).append(hop)
        return found
