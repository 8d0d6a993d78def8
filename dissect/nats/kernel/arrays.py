"""The arrays of the kernel, and the calls of its compiled functions. This module imports numba."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from secrets import randbits

import numpy as np

from ..durations import CLOCK_STEP_NS
from ..types import Packets, Share
from . import columns, hashes, lines, packets, state, walk
from .jit import FOLDER, Array
from .records import CompiledReaders, PacketPlaces
from .state import Stop

_SUBS = 1 << 16
_BITS = 1 << 22
_EVENTS, _TEXT = 1 << 15, 1 << 19
_ROWS, _ROW_TEXT = 3 << 14, 2 << 20
_FRAME_BYTES = 1 << 14  # of a frame in several packets, if layers read it: larger ones are Python's
MOST_LISTED = 1 << 12

# By link type: where the EtherType is (-1: there is none), and where the IP header begins.
LINKS = {1: (12, 14), 113: (14, 16), 276: (0, 20), 0: (-1, 4), 108: (-1, 4)}
LINKS |= {raw: (-1, 0) for raw in (12, 14, 101, 228)}


def compiling() -> str:
    """What to say before `walk` is compiled, with all that it calls; empty if its machine code is stored."""
    if FOLDER and any(FOLDER.rglob("walk.walk-*.nbi")):
        return ""
    once = "once on this machine"
    if FOLDER is None:
        once = "each time, since no folder can be written where it could stay (set NUMBA_CACHE_DIR)"
    return f"compiling the kernel, {once}: ten seconds or more"


class Arrays:
    """State of at most `slots` connections. The packets of one run at a time are loaded. With `rows`, there
    is room for rows of frames; if `layers` read messages, for whole frames. `on_compile` is called with a
    line before compiling takes long."""

    def __init__(
        self,
        slots: int,
        rows: bool = False,
        layers: state.Reads = state.Reads.NONE,
        on_compile: Callable[[str], None] | None = None,
    ) -> None:
        self._on_compile = on_compile
        self.control = np.zeros(state.C_WIDTH, np.int64)
        self.ways = np.zeros((2 * slots, state.W_WIDTH), np.int64)
        self.slots = np.zeros((slots, state.S_WIDTH), np.int64)
        self.keys = np.zeros((2 * slots, state.KEY_WORDS), np.uint64)
        kept = _FRAME_BYTES if layers else state.LINE_BYTES
        self.carry = np.zeros((2 * slots + 1, kept), np.uint8)
        self.subs = np.zeros((_SUBS, state.U_WIDTH), np.int64)
        self.bits = np.zeros(_BITS, np.uint8)
        self.events = np.zeros((_EVENTS, state.E_WIDTH), np.int64)
        self.arena = np.zeros(_TEXT, np.uint8)
        self.listed = np.zeros(MOST_LISTED + 1, np.int64)
        count, size = (_ROWS, _ROW_TEXT) if rows else (1, 1)
        self.rows = np.zeros((count, state.R_WIDTH), np.int64)
        self.ends = np.zeros((state.TEXTS, count + 1), np.int32)
        self.texts = np.zeros((state.TEXTS, size), np.uint8)
        self.share = np.ones(1, np.uint8)  # all flows: see `types.Share`
        self._lines = self.carry.view()
        self._lines.flags.writeable = False
        self._table = np.zeros(1 << (8 * slots - 1).bit_length(), np.int64)
        self._line = np.zeros(state.L_WIDTH, np.int64)
        self._work = np.zeros(state.K_WIDTH, np.int64)
        self._key = np.zeros(state.KEY_WORDS, np.uint64)
        self._found = np.zeros(packets.P_WIDTH, np.int64)
        self._staged = np.zeros((1 << 14, state.F_WIDTH), np.int64)
        self._removed = 0
        self._seed = self.control[state.C_SEED] = randbits(62)
        self.control[state.C_STEP] = CLOCK_STEP_NS
        self.control[state.C_LAYERS] = layers
        self._text: Array = self.carry[0]
        self._places: Array = self.events
        self.readers = CompiledReaders()

    def follow(self, share: Share) -> None:
        """Passes over the packets of flows in other shares."""
        self.share = np.array([number == share.number for number in share.buckets], np.uint8)

    def load(self, run: Packets, number: int) -> bool:
        """Loads a run. Returns False if it has times that do not fit in an array."""
        control = self.control
        if isinstance(run.places, PacketPlaces):
            self._places = run.places.array
        else:
            try:
                flat = np.fromiter(chain.from_iterable(run.places), np.int64, 4 * len(run.places))
            except OverflowError:
                return False
            self._places = flat.reshape(-1, 4)
        self._text = np.frombuffer(run.block, np.uint8)
        control[state.C_TYPE_AT], control[state.C_IP_AT] = LINKS.get(run.linktype, (-1, -1))
        control[state.C_RUN] = number << state.PLACE_BITS
        control[state.C_FIRST] = run.first
        control[state.C_NEXT] = 0
        control[state.C_CLOCK_AT] = -1
        return True

    def walk(self) -> Stop:
        """Walks on through the packets of the run."""
        try:
            stop = walk.walk(
                self._text,
                self._places,
                self.control,
                self.keys,
                self._table,
                self.ways,
                self.slots,
                self.carry,
                self._lines,
                self._line,
                self._work,
                self._key,
                self._found,
                self.subs,
                self.bits,
                self._staged,
                self.events,
                self.arena,
                self.listed,
                (self.rows, self.ends, self.texts),
                self.share,
            )
        except IndexError:  # a packet that is not what it says
            stop = Stop.BREAK
        return Stop(stop)

    @property
    def lacks_room(self) -> bool:
        """Whether rows have to be taken before the next packet is kept."""
        return bool(columns.lacks_room(self.control, (self.rows, self.ends, self.texts)))

    def take_rows(self) -> tuple[Array, list[tuple[Array, Array]], list[int]]:
        """Removes and returns the rows: the numbers by column, and the ends and bytes of each text. The
        labels of rows are indices into the third list, which has their codes."""
        control = self.control
        counts = [int(control[state.C_ROWS])] * state.T_NAME + [int(control[state.C_FIELDS])] * 2
        numbers = self.rows[: counts[0]].T.copy()
        texts = []
        for ends, text, count in zip(self.ends, self.texts, counts):
            texts.append((ends[: count + 1].copy(), text[: ends[count]].copy()))
        control[state.C_ROWS] = control[state.C_FIELDS] = 0
        codes, numbers[state.R_LABEL] = np.unique(numbers[state.R_LABEL], return_inverse=True)
        return numbers, texts, codes.tolist()

    def add(self, way: int, key: bytes) -> None:
        """Follows packets with this key as those of a way."""
        if self._on_compile:
            if text := compiling():
                self._on_compile(text)
            self._on_compile = None
        self.keys[way] = words_of(key)
        hashes.add_way(self.keys, self._table, way, self._seed)

    def remove(self, way: int) -> None:
        """Forgets the key of a way."""
        hashes.remove_way(self.keys, self._table, way, self._seed)
        self._removed += 1

    def tidy(self, ways: Iterable[int]) -> None:
        """Makes the table of keys anew, with those of `ways`, if it has many removed ones."""
        if self._removed > len(self._table) // 4:
            self._removed = 0
            self._table[:] = 0
            for way in ways:
                hashes.add_way(self.keys, self._table, way, self._seed)

    def expect(self, reply: bytes, epoch: int) -> None:
        """Sets the bit of a reply subject."""
        text = np.frombuffer(reply, np.uint8)
        at = hashes.filter_bit(text, 0, len(text), epoch, self._seed, len(self.bits))
        self.bits[at] = 1

    def subscribe(self, epoch: int, sid: int, left: int) -> int:
        """The row of a subscription, which is added if it is new."""
        row = hashes.find_sub(self.subs, epoch, sid, self._seed)
        if row < 0:
            row = -1 - row
            self.subs[row] = epoch, sid, 0, 0, left
        return int(row)

    def grammar(self, name: str) -> tuple[int, frozenset[int]]:
        """The number of a grammar, and its operations."""
        number: int = getattr(lines, name)
        return number, lines.OPERATIONS[number]

    def new_epoch(self) -> int:
        """A number that was not used before."""
        self.control[state.C_EPOCH] += 1
        return int(self.control[state.C_EPOCH])


def words_of(key: bytes) -> list[int]:
    """The key of a segment as numbers, as `packets.place` makes it."""
    ports = int.from_bytes(key[-4:], "big")
    addresses = [int.from_bytes(key[at : at + 8], "big") for at in range(0, len(key) - 4, 8)]
    is_ipv6 = len(addresses) > 1
    return [*addresses, *[0] * (4 - len(addresses)), ports | is_ipv6 << 32]
