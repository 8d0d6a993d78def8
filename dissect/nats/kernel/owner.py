"""The connections that the kernel follows: hands them over, and takes them back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..framing.progress import Progress
from ..packet import PacketParser
from ..schema.records import Record
from ..sessions import SessionDelta
from ..tcp.flow import Flow
from ..types import Chunk, Gap, Packets, Segment
from . import state
from .handover import OPERATIONS, Owned, OwnedWay, countable, grammar_of, readable
from .state import NO_PLACE, PLACE_BITS, STORED, Op, Worth

if TYPE_CHECKING:
    from .arrays import Arrays
    from .jit import Array
    from .rows import WaitingRows

_MOST_RUNS = 8
_NO_LIMIT = 1 << 60
_DELIVERIES = (int(Op.MSG), int(Op.HMSG))
# Columns of a frame that may be a request or a reply.
_PAIRED = [state.E_INDEX, state.E_WAY, state.E_OP, state.E_TIME, state.E_TEXT, state.E_LINE]
_PAIRED += [state.E_HEADERS, state.E_SIZE]
_MOST_SUBS = 1 << 15
_MOST_ASKED = 1 << 20
_PLACES = (state.W_LAST, state.W_DATA, state.W_FIRST)
_LEAST_NS = -(1 << 62)


class Runs:
    """The latest runs, from which packets can be read again. Of earlier ones, the packets that are needed are
    stored."""

    def __init__(self, parser: PacketParser) -> None:
        self._parser = parser
        self._number = 0
        self._runs: dict[int, tuple[Packets, int]] = {}
        self._stored: dict[tuple[int, int], Segment] = {}

    def add(self, run: Packets, before: int, owner: Owner) -> int:
        """Adds a run; returns its number."""
        self._number += 1
        self._runs[self._number] = run, before
        if len(self._runs) > _MOST_RUNS:
            oldest = next(iter(self._runs))
            for way, column in owner.ways_at(oldest):
                self._stored[way, column] = self.segment(way, column, owner.place(way, column))
                owner.mark_stored(way, column)
            del self._runs[oldest]
        return self._number

    def segment(self, way: int, column: int, place: int) -> Segment:
        """The segment of a way at a place, which is in a column."""
        if place == STORED:
            return self._stored[way, column]
        run, before = self._runs[place >> PLACE_BITS]
        index = place & (1 << PLACE_BITS) - 1
        segment = self._parser.segment_of(run.packet(index))
        assert segment
        segment.ordinal = before + index + 1
        return segment

    def chunk(self, way: int, place: int, last: Chunk | None) -> Chunk:
        """The packet at a place, without its bytes: `last`, if it is that one."""
        if place == STORED:
            segment = self._stored[way, state.W_FIRST]
            return Chunk(segment.ts_ns, segment.number, segment.capture, 0, b"")
        run, _ = self._runs[place >> PLACE_BITS]
        index = place & (1 << PLACE_BITS) - 1
        number = run.first + index
        if last and number == last.number and run.capture == last.capture:
            return last
        return Chunk(run.places[index][0], number, run.capture, 0, b"")

    def forget(self, way: int) -> None:
        """Forgets what is stored of a way."""
        for column in _PLACES:
            self._stored.pop((way, column), None)


class Owner:
    """The connections that the kernel follows, by flow."""

    def __init__(self, arrays: Arrays, runs: Runs, rows: WaitingRows | None = None) -> None:
        self.flows: dict[Flow, Owned] = {}
        self._rows = rows
        self._arrays = arrays
        self._runs = runs
        self._slots: list[Owned | None] = [None] * len(arrays.slots)
        self._free = list(range(len(arrays.slots) - 1, -1, -1))
        self._used = 0  # slots that were ever used
        self._subs = 0  # rows of subscriptions

    def of_way(self, way: int) -> Owned:
        """The connection of a way."""
        owned = self._slots[way >> 1]
        assert owned
        return owned

    def hand_over(self, owned: Owned) -> bool:
        """Hands a connection over. Returns False if there is no room."""
        if not self._free:
            return False
        arrays, control = self._arrays, self._arrays.control
        owned.slot = slot = self._free.pop()
        self._used = max(self._used, slot + 1)
        session = owned.tables.session
        control[state.C_SESSIONS] = session is not None
        if session:
            control[state.C_PAIRS] = session.pairs_requests
            control[state.C_CARRIED] = session.counts_interest
        streams = (way.stream for way in owned.ways)
        if not control[state.C_LAYERS]:
            control[state.C_REPLIES] = any(stream and stream.keeps_payloads for stream in streams)
        arrays.slots[slot] = 0
        arrays.slots[slot, state.S_LAST_NS] = max(_LEAST_NS, owned.flow.last_ns)
        arrays.slots[slot, state.S_NUMBER] = owned.tables.last_number
        for index, way in enumerate(owned.ways):
            number = 2 * slot + index
            arrays.ways[number] = self._columns_of(owned, way)
            if way.progress:
                kept = way.progress.line + way.progress.headers
                arrays.carry[number, : len(kept)] = memoryview(kept)
            arrays.add(number, way.side.key)
        self._expect_replies(owned)
        self._slots[slot] = owned
        self.flows[owned.flow] = owned
        if self._rows:
            self._rows.begin(owned)
        return True

    def take_back(self, owned: Owned) -> int:
        """Gives a connection back to Python; returns how many of its packets the kernel kept."""
        arrays, slot = self._arrays, owned.slot
        self.add_sums(owned)
        owned.tables.pass_to(int(arrays.slots[slot, state.S_NUMBER]))
        if self._rows:
            self._rows.end(owned)
        self._note_time(owned)
        for index, way in enumerate(owned.ways):
            number = 2 * slot + index
            columns = arrays.ways[number].tolist()
            self._take_side(owned, number, way, columns)
            if way.stream and columns[state.W_DATA] != NO_PLACE:
                way.stream.take(self._progress(number, way, columns))
            arrays.remove(number)
            self._runs.forget(number)
        del self.flows[owned.flow]
        self._slots[slot] = None
        self._free.append(slot)
        arrays.tidy(2 * other.slot + index for other in self.flows.values() for index in (0, 1))
        return int(arrays.slots[slot, state.S_KEPT])

    def note_times(self) -> None:
        """Notes the times of the last packets, by which the table judges how long flows are silent."""
        for owned in self.flows.values():
            self._note_time(owned)

    def add_sums(self, owned: Owned) -> None:
        """Adds what was counted since the last time to the session. All frames that were passed on must have
        been added: the first frame of an operation is one of them."""
        for index, way in enumerate(owned.ways):
            columns = self._arrays.ways[2 * owned.slot + index]
            delta = self._deliveries(owned, index)
            for op, count in enumerate(columns[state.W_OPS :].tolist()):
                if count:
                    delta.counts[OPERATIONS[op]] = count
            delta.bytes = int(columns[state.W_SUM])
            columns[state.W_OPS :] = 0
            columns[state.W_SUM] = 0
            self._add(owned, way, delta)

    def add_deliveries(self, owned: Owned) -> None:
        """Adds what was counted of subscriptions since the last time. Frames may wait to be added."""
        for index, way in enumerate(owned.ways):
            self._add(owned, way, self._deliveries(owned, index))

    def _deliveries(self, owned: Owned, index: int) -> SessionDelta:
        """Takes the sums of the subscriptions of a way."""
        delta, rows = SessionDelta(), self._arrays.subs
        for sid, row in owned.subs[index].items():
            count, size = rows[row, state.U_COUNT : state.U_BYTES + 1].tolist()
            if count:
                delta.delivered[sid] = [count, size]
                rows[row, state.U_COUNT : state.U_BYTES + 1] = 0
        return delta

    def _add(self, owned: Owned, way: OwnedWay, delta: SessionDelta) -> None:
        if delta.counts or delta.delivered:
            session = owned.tables.session
            assert session
            added = session.add_delta(way.side.direction, delta)
            assert added, "the kernel has counted a frame that it must pass on"

    def pair(self, events: Array, text: bytes) -> list[tuple[int, list[Record]]]:
        """Adds requests, and messages that may be replies; their sums were counted. Returns the rows that
        they complete, with the indexes of packets."""
        found: list[tuple[int, list[Record]]] = []
        has_payloads = bool(self._arrays.control[state.C_LAYERS])
        latest: Owned | None = None
        last = -1
        for index, way, op, ts_ns, at, size, header_bytes, total in events[:, _PAIRED].tolist():
            if latest and index != last:
                found.append((last, latest.tables.completed()))
                latest = None
            owned = self._slots[way >> 1]
            assert owned
            session = owned.tables.session
            assert session
            requests, last = session.requests, index
            end = at + size
            words = text[at:end].split(b" ")
            if op <= Op.HPUB:
                requests.send(words[1], words[2], ts_ns, total)
                if session.rows:
                    latest = owned
                continue
            endpoint = owned.ways[~way & 1].endpoint
            assert endpoint
            reply = words[3] if len(words) == (6 if op == Op.HMSG else 5) else b""
            at = end + header_bytes
            headers, payload = text[end:at], text[at : end + total] if has_payloads else b""
            sub = endpoint.subscriptions.by_sid[words[2]]
            requests.receive(words[1], reply, ts_ns, total, sub, header_bytes, headers, payload)
        if latest:
            found.append((last, latest.tables.completed()))
        return found

    def settle(self, events: Array) -> None:
        """Looks at the frames that were passed on and are added by now: learns the subscriptions of
        deliveries."""
        arrays, control = self._arrays, self._arrays.control
        for event in events[events[:, state.E_WORTH] >= Worth.PASSED].tolist():
            if event[state.E_OP] in _DELIVERIES:
                self._learn_sub(event)
        if control[state.C_ASKED] > _MOST_ASKED:
            control[state.C_ASKED] = 0
            arrays.bits[:] = 0
            for owned in [*self.flows.values()]:
                if not self._expect_replies(owned):
                    self.take_back(owned)

    def ways_at(self, run: int) -> Iterable[tuple[int, int]]:
        """The ways that need a packet of a run, each with the column that has its place."""
        ways = self._arrays.ways[: 2 * self._used]
        for column in _PLACES:
            for way in (ways[:, column] >> PLACE_BITS == run).nonzero()[0].tolist():
                if self._slots[way >> 1] and (column != state.W_FIRST or ways[way, state.W_SIZE]):
                    yield way, column

    def begun(self, owned: Owned, way: int, place: int, last: Chunk | None = None) -> Chunk | Gap:
        """The packet in which a frame begins: `last`, which completes it, if it is that one."""
        progress = owned.ways[way & 1].progress
        if place == NO_PLACE and progress and progress.first:
            return progress.first
        return self._runs.chunk(way, place, last)

    def place(self, way: int, column: int) -> int:
        """The place in a column of a way."""
        return int(self._arrays.ways[way, column])

    def mark_stored(self, way: int, column: int) -> None:
        """Notes that the packet of a column is stored."""
        self._arrays.ways[way, column] = STORED

    def _columns_of(self, owned: Owned, way: OwnedWay) -> list[int]:
        """The columns of a way that is handed over."""
        columns = [0] * state.W_WIDTH
        side, stream, progress = way.side, way.stream, way.progress
        peer = owned.ways[0].side if way is owned.ways[1] else owned.ways[1].side
        columns[state.W_SEQ], columns[state.W_OFFSET] = side.stream.next_seq, side.stream.offset
        columns[state.W_UNIT] = side.window_unit
        columns[state.W_CHECKS] = side.stream.checks
        if latest := peer.stream.ack:
            columns[state.W_HAS_ACK] = 1
            columns[state.W_ACK], columns[state.W_WINDOW] = latest.ack, latest.window
        for column in _PLACES:
            columns[column] = NO_PLACE
        columns[state.W_SUBS] = self._arrays.new_epoch()
        session = owned.tables.session
        asker = self._arrays.new_epoch()
        is_asked = session and session.requests.sent or owned.tables.awaited()
        columns[state.W_ASKER] = asker if is_asked else -asker
        columns[state.W_LARGEST] = session.max_payload if session else 0
        columns[state.W_COUNTS] = countable(way.endpoint)
        columns[state.W_TIME] = _LEAST_NS
        columns[state.W_LABEL] = -1
        if stream and progress:
            columns[state.W_TIME] = max(_LEAST_NS, progress.ts_ns)
            columns[state.W_BASE] = progress.start
            columns[state.W_SIZE] = len(progress.line) + len(progress.headers)
            columns[state.W_LINE] = len(progress.line) if progress.left else 0
            columns[state.W_LEFT] = progress.left
            grammar, operations = self._arrays.grammar(grammar_of(stream.context))
            columns[state.W_GRAMMAR] = grammar
            columns[state.W_READS] = readable(owned, stream, operations)
        return columns

    def _take_side(self, owned: Owned, number: int, way: OwnedWay, columns: list[int]) -> None:
        """Gives a flow what the kernel knows of one of its sides."""
        side = way.side
        side.packets += columns[state.W_PACKETS]
        side.bytes += columns[state.W_BYTES]
        side.window_full += columns[state.W_FULL]
        data, last = columns[state.W_DATA], columns[state.W_LAST]
        if data != NO_PLACE:
            source = self._runs.segment(number, state.W_DATA, data)
            start = columns[state.W_OFFSET] - source.length
            place = source.ts_ns, source.number, source.capture, start
            side.stream.advance(Chunk(*place, source.payload), source)
        if last != NO_PLACE:
            peer = owned.ways[1 - (number & 1)].side
            same = data == last != STORED
            peer.stream.ack = source if same else self._runs.segment(number, state.W_LAST, last)

    def _progress(self, number: int, way: OwnedWay, columns: list[int]) -> Progress:
        """Where the frames of a way stand."""
        assert way.progress
        size, line, end = columns[state.W_SIZE], columns[state.W_LINE], columns[state.W_OFFSET]
        kept = self._arrays.carry[number, :size].tobytes()
        first = None
        if size and columns[state.W_FIRST] != NO_PLACE:
            first = self._runs.chunk(number, columns[state.W_FIRST], None)
        return Progress(
            start=columns[state.W_BASE] if size else end,
            end=end,
            ts_ns=max(way.progress.ts_ns, columns[state.W_TIME]),
            line=kept[:line] if line else kept,
            headers=kept[line:] if line else b"",
            left=columns[state.W_LEFT],
            frames=columns[state.W_FRAMES],
            first=first,
        )

    def _note_time(self, owned: Owned) -> None:
        latest = int(self._arrays.slots[owned.slot, state.S_LAST_NS])
        owned.flow.last_ns = max(owned.flow.last_ns, latest)

    def _expect_replies(self, owned: Owned) -> bool:
        """Sets the bits of the reply subjects under which replies may come. Returns False if these are not
        known."""
        session, awaited = owned.tables.session, owned.tables.awaited()
        if awaited is None:
            return False
        sent = session.requests.expected() if session and session.requests.sent else ()
        for reply in {*sent, *awaited}:
            for index in (0, 1):
                epoch = int(self._arrays.ways[2 * owned.slot + index, state.W_ASKER])
                self._arrays.expect(reply, abs(epoch))
                self._arrays.control[state.C_ASKED] += 1
        return True

    def _learn_sub(self, event: list[int]) -> None:
        """Adds the subscription of a delivery to the table, unless it is there."""
        number = event[state.E_WAY]
        owned = self._slots[number >> 1]
        if owned is None:
            return
        arrays, at = self._arrays, event[state.E_TEXT]
        line = arrays.arena[at : at + event[state.E_LINE]].tobytes()
        sid = line.split(b" ", 3)[2]
        index, epoch = number & 1, int(arrays.ways[number, state.W_SUBS])
        subs = owned.subs[index]
        if owned.epochs[index] != epoch:
            owned.epochs[index] = epoch
            subs.clear()
        if sid in subs or not sid.isdigit() or len(sid) > 15 or sid != b"%d" % int(sid):
            return
        endpoint = owned.ways[1 - index].endpoint
        sub = endpoint.subscriptions.by_sid.get(sid) if endpoint else None
        if sub is None:
            return
        if self._subs >= _MOST_SUBS:
            self._forget_subs()
        left = sub.max_msgs - sub.delivered if sub.max_msgs else _NO_LIMIT
        subs[sid] = arrays.subscribe(epoch, int(sid), left if left > 0 else _NO_LIMIT)
        self._subs += 1

    def _forget_subs(self) -> None:
        """Empties the table of subscriptions."""
        for owned in self.flows.values():
            self.add_sums(owned)
            for subs in owned.subs:
                subs.clear()
        self._arrays.subs[:] = 0
        self._subs = 0
