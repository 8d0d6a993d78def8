"""The facts about all sessions that `paths` needs: the servers at their ends, gaps, and captures.

`SessionFacts` collects them for one session; `Facts` has them for all sessions, and is sent to every task. It
is small: it has an entry per connection, and one per gap up to a limit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import cast

from ...schema.declaration import LayerFrame, LayerItem, Work
from ..json_bodies import read_object, text
from ..messages import LINKS, OTHER
from ..servers import describes_sender
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
    gap, by sender, and `taps` the captures that have its frames."""

    ends: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    gaps: dict[str, list[int]] = field(default_factory=dict)
    taps: list[str] = field(default_factory=list)
    _next: dict[str, int] = field(default_factory=dict)  # where the next frame of a sender begins

    def look(self, frame: LayerFrame) -> None:
        """Notes the capture of a frame, and whether bytes are missing before it."""
        sender = frame.sender
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
        if key:
            self.ends.setdefault(frame.sender, key)
            if name and name != key and len(self.names) < _CAPTURES:
                self.names[key] = min(name, self.names.get(key, name))

    def item(self, session: str) -> LayerItem:
        """The item with these facts, for SESSIONS."""
        body = self.ends, self.names, self.gaps, self.taps
        return LayerItem(SESSIONS, key_of(session), 0, session, 0, body)


@dataclass(slots=True)
class Facts:
    """The facts of all sessions. `is_full` is true if the facts of some are missing."""

    ends: dict[str, dict[str, str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    gaps: dict[SessionSide, list[int]] = field(default_factory=dict)
    taps: set[str] = field(default_factory=set)
    is_full: bool = False

    @classmethod
    def of(cls, work: Work) -> Facts:
        """The facts in the items of SESSIONS."""
        return cls.gathered(work.first(SESSIONS, CONNECTIONS + 1))

    @classmethod
    def gathered(cls, items: Iterable[LayerItem]) -> Facts:
        """The facts in these items."""
        facts = cls()
        for at, item in enumerate(items):
            if at == CONNECTIONS:
                facts.is_full = True
                break
            facts._add(item)
        return facts

    def _add(self, item: LayerItem) -> None:
        ends, names, gaps, taps = cast(
            "tuple[dict[str, str], dict[str, str], dict[str, list[int]], list[str]]", item.body
        )
        if ends:
            self.ends[item.session] = ends
        for key, name in names.items():
            self.names[key] = min(name, self.names.get(key, name))
        for sender, numbers in gaps.items():
            self.gaps[item.session, sender] = numbers
        self.taps.update(taps)

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
