"""The way of each message through the system: from its publisher through servers to its readers.

One row per hop. The first hop is the publication by a client; the others are frames that carry the same
message: between servers, and to clients that subscribe. What cannot be proven is left out: `copies` says
that a publication has equal ones, and a hop says by what it was matched (see `path_matching`). Requests
that cross a service import have another reply there (`_R_.`), which nothing in the bytes links to the
original: such hops are not matched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated

from ..anomalies import Anomaly
from ..declaration import ApplicationLayer, LayerFrame, Table, TextColumn
from ..number_formats import duration_text, moment_text
from ..records import FrameRecord, Record
from .json_bodies import number, read_object, text
from .messages import LINKS, MESSAGES
from .path_hops import Hop, Side, hop_of
from .path_matching import Match, Way, ways

_GREETINGS = frozenset({"INFO", "CONNECT"})
_INTERNAL = ("$SYS.", "$NRG.", "$JSC.", "$JS.", "$LDS.", "_R_.")
# Frames of messages that are held until the end: each takes about 500 bytes. Those that come later are left
# out, and every row says so.
_FRAMES = 1 << 20
_CONNECTIONS = 1 << 16


@dataclass(slots=True, kw_only=True)
class PathRecord(Record):
    """One hop of a message."""

    message: Annotated[str, "the message: `SESSION:NUMBER` of its publication"]
    hop: Annotated[int, "1 is the publication; then in order of time"]
    session: Annotated[str, "session of the hop's frame"]
    number: Annotated[int, "number of the frame"]
    sender: Annotated[str, "originator or responder"]
    kind: Annotated[str, "kind of the connection"]
    op: Annotated[str, "operation of the frame"]
    from_server: Annotated[str | None, "server that sent it; absent for a client"] = None
    to_server: Annotated[str | None, "server that got it; absent for a client"] = None
    subject: Annotated[str, "subject there"]
    account: Annotated[str | None, "account, where the frame says it"] = None
    ts_ns: Annotated[int, "time of the frame"]
    since_ns: Annotated[
        int | None, "after the hop that brought the message to the server that sent it on"
    ] = None
    total_ns: Annotated[int | None, "after the publication"] = None
    matched_by: Annotated[
        str | None,
        "unique (its content, or JetStream's sequence), ordered (among equal ones of a publisher) or time;"
        " absent for the publication",
    ] = None
    copies: Annotated[int, "publications that are equal to this one, itself included"] = 1
    anomalies: Annotated[
        list[str] | None, "forgotten: too many frames, so that hops and messages may be missing"
    ] = None


def wants(frame: FrameRecord) -> bool:
    """Every frame: those that carry no message show that none is missing in between."""
    return True


def is_followed(frame: FrameRecord) -> bool:
    """Whether the frame carries a message of somebody's."""
    return frame.op in MESSAGES and not (frame.subject or "").startswith(_INTERNAL)


class Paths:
    """All sessions: their messages, in any order, and the servers at their ends."""

    def __init__(self) -> None:
        self._is_full = False
        self._publications: list[Hop] = []
        self._hops: list[Hop] = []
        self._acks: dict[tuple[str, str], list[tuple[int, tuple[str, int]]]] = {}
        self._ends: dict[str, dict[str, tuple[int, str]]] = {}  # session -> sender -> server's id
        self._names: dict[str, str] = {}  # id of a server -> its name
        self._next: dict[Side, int] = {}  # where the next frame begins, if no byte is missing
        self._torn: set[Side] = set()

    def add(self, frame: LayerFrame) -> Iterable[Record]:
        """Takes a frame; rows come at the end."""
        self._check_place(frame)
        if frame.op in _GREETINGS and frame.json is not None:
            self._meet(frame)
        elif not is_followed(frame):
            return ()
        elif len(self._publications) + len(self._hops) < _FRAMES:
            if frame.op in ("PUB", "HPUB"):
                self._publications.append(hop_of(frame))
            else:
                self._hops.append(hop_of(frame))
                if frame.content[:1] == b"{" and b'"seq"' in frame.content:
                    self._stored(frame)
        else:
            self._is_full = True
        return ()

    def finish(self) -> Iterator[Record]:
        """The rows of all publications."""
        self._publications.sort()
        self._hops.sort(key=lambda hop: hop[:3])
        for way in ways(self._publications, self._hops, self._places(), self._torn):
            yield from self._rows(way)

    def _check_place(self, frame: LayerFrame) -> None:
        """Notes whether bytes are missing before the frame."""
        side = frame.session, frame.sender
        if self._next.get(side, frame.offset) != frame.offset:
            if len(self._torn) < _CONNECTIONS:
                self._torn.add(side)
            else:
                self._is_full = True
        if side not in self._next and len(self._next) >= _CONNECTIONS:
            del self._next[next(iter(self._next))]
        self._next[side] = frame.offset + frame.total_bytes

    def _meet(self, frame: LayerFrame) -> None:
        """A server, or on links both, say who they are; what was said first on a connection counts."""
        read = read_object((frame.json or "").encode("utf-8", "replace"))
        if read is None or (frame.op == "CONNECT" and frame.kind not in LINKS):
            return
        name = text(read, "server_name") or text(read, "name")
        key = text(read, "server_id") or name
        if key and (frame.session in self._ends or len(self._ends) < _CONNECTIONS):
            ends = self._ends.setdefault(frame.session, {})
            said = frame.number, key
            ends[frame.sender] = min(said, ends.get(frame.sender, said))
            if name != key:
                self._names[key] = min(name, self._names.get(key, name))

    def _stored(self, frame: LayerFrame) -> None:
        """A PubAck: it says where the publication is that asked for it on this reply subject."""
        read = read_object(frame.content)
        seq = number(read, "seq") if read else None
        if read and seq and text(read, "stream") and not read.get("duplicate"):
            line = frame.session, frame.subject or ""
            place = text(read, "stream"), seq
            self._acks.setdefault(line, []).append((frame.number, place))

    def _places(self) -> dict[tuple[str, int], Hop]:
        """Where each publication is stored, if its ack says so: the first one after it on its reply."""
        found: dict[tuple[str, int], Hop] = {}
        claims: Counter[tuple[str, int]] = Counter()
        asked: dict[tuple[str, str], list[Hop]] = {}
        for one in self._publications:
            if one.reply:
                asked.setdefault((one.session, one.reply), []).append(one)
        for line, acks in self._acks.items():
            waiting = asked.get(line, [])
            is_torn = len(acks) > 1 and not self._torn.isdisjoint(
                (line[0], sender) for sender in _OTHER
            )
            if (
                len(waiting) == len(acks) and not is_torn
            ):  # a reply subject that is used again has as many acks
                for one, (_, place) in zip(waiting, sorted(acks)):
                    found[place] = one
                    claims[place] += 1
        # Several accounts, or systems, may each have a stream of that name: then it names nobody.
        return {place: one for place, one in found.items() if claims[place] == 1}

    def _server(self, ends: dict[str, tuple[int, str]], sender: str) -> str | None:
        """The server at an end of a connection: its name, else its id."""
        key = ends.get(sender, (0, ""))[1]
        return self._names.get(key, key) or None

    def _rows(self, way: Way) -> Iterator[PathRecord]:
        one = way.publication
        message = f"{one.session}:{one.number}"
        came: dict[str, int] = {}  # server -> when the message came there
        for at, match in enumerate([Match(one, ""), *way.hops], 1):
            hop = match.hop
            ends = self._ends.get(hop.session, {})
            sender, receiver = hop.sender, _OTHER[hop.sender]
            from_server, to_server = self._server(ends, sender), self._server(ends, receiver)
            since = came.get(from_server or "", one.ts_ns)
            if to_server:
                came.setdefault(to_server, hop.ts_ns)
            yield PathRecord(
                message=message,
                hop=at,
                session=hop.session,
                number=hop.number,
                sender=sender,
                kind=hop.kind,
                op=hop.op,
                from_server=from_server,
                to_server=to_server,
                subject=hop.subject,
                account=hop.account,
                ts_ns=hop.ts_ns,
                since_ns=hop.ts_ns - since if at > 1 else None,
                total_ns=hop.ts_ns - one.ts_ns if at > 1 else None,
                matched_by=match.matched_by or None,
                copies=way.copies,
                anomalies=[Anomaly.FORGOTTEN.value] if self._is_full else None,
            )


_OTHER = {"originator": "responder", "responder": "originator"}


def _position(row: PathRecord) -> tuple[int | str, ...]:
    return row.ts_ns, row.session, row.number, row.message


def _since(row: PathRecord) -> str:
    return "" if row.since_ns is None else duration_text(row.since_ns)


PATHS = Table(
    name="paths",
    singular="hop",
    summary="Follow each message from server to server, one row per hop.",
    row=PathRecord,
    time="ts_ns",
    position=_position,
    text=(
        TextColumn("message", 20, attrgetter("message")),
        TextColumn("hop", 3, lambda row: str(row.hop), right=True),
        TextColumn(
            "time", 23, lambda row: moment_text(row.ts_ns), shorter=lambda cell: cell[11:], rank=4
        ),
        TextColumn("kind", 8, attrgetter("kind"), rank=3),
        TextColumn("op", 4, attrgetter("op")),
        TextColumn("from", 12, lambda row: row.from_server or "client", gives=True),
        TextColumn("to", 12, lambda row: row.to_server or "client", gives=True),
        TextColumn("subject", 20, attrgetter("subject"), gives=True),
        TextColumn("since", 8, _since, right=True),
        TextColumn("by", 7, lambda row: row.matched_by or ""),
        TextColumn("equal", 5, lambda row: "" if row.copies == 1 else str(row.copies), right=True),
    ),
    layer=ApplicationLayer(wants, Paths, across=True),
    payloads=True,
)
