"""Hash tables and a filter, as compiled functions. Keys come from the wire, so each process hashes with a
seed of its own."""

from __future__ import annotations

import numpy as np

from .jit import Array, Number, compiled
from .state import KEY_WORDS, U_EPOCH, U_SID

_FIRST, _SECOND, _THIRD = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xC2B2AE3D27D4EB4F),
    np.uint64(0xBF58476D1CE4E5B9),
)
_HALF, _LOW = np.uint64(32), np.uint64(29)
_EMPTY, _REMOVED = 0, -1


@compiled
def _mixed(value: Array, word: Array) -> Array:
    value = (value ^ word) * _FIRST
    value ^= value >> _LOW
    value *= _THIRD
    return value ^ (value >> _HALF)


@compiled
def _slot_of(key: Array, seed: int, mask: int) -> Number:
    value = np.uint64(seed)
    for index in range(KEY_WORDS):
        value = _mixed(value, key[index])
    return np.int64(value & np.uint64(mask))


@compiled
def _same(one: Array, other: Array) -> bool:
    for index in range(KEY_WORDS):
        if one[index] != other[index]:
            return False
    return True


@compiled
def find_way(keys: Array, table: Array, key: Array, seed: int) -> Number:
    """The way whose packets have this key; -1 if there is none."""
    mask = len(table) - 1
    at = _slot_of(key, seed, mask)
    while True:
        entry = table[at]
        if entry == _EMPTY:
            return -1
        if entry > 0 and _same(keys[entry - 1], key):
            return entry - 1
        at = (at + 1) & mask


@compiled
def add_way(keys: Array, table: Array, way: int, seed: int) -> None:
    """Adds a way, whose key is in `keys`."""
    mask = len(table) - 1
    at = _slot_of(keys[way], seed, mask)
    while table[at] > 0:
        at = (at + 1) & mask
    table[at] = way + 1


@compiled
def remove_way(keys: Array, table: Array, way: int, seed: int) -> None:
    """Removes a way."""
    mask = len(table) - 1
    at = _slot_of(keys[way], seed, mask)
    while table[at] != way + 1:
        at = (at + 1) & mask
    table[at] = _REMOVED


@compiled
def find_sub(subs: Array, epoch: int, sid: int, seed: int) -> Number:
    """The row of a subscription; if it is not there, -1 minus the row where it may be added."""
    mask = len(subs) - 1
    value = _mixed(_mixed(np.uint64(seed), np.uint64(epoch)), np.uint64(sid))
    at = np.int64(value & np.uint64(mask))
    while True:
        if subs[at, U_EPOCH] == 0:
            return -1 - at
        if subs[at, U_EPOCH] == epoch and subs[at, U_SID] == sid:
            return at
        at = (at + 1) & mask


@compiled
def filter_bit(text: Array, start: int, end: int, epoch: int, seed: int, size: int) -> Number:
    """The bit of a reply subject in a filter of `size` bits, a power of two."""
    value = _mixed(np.uint64(seed), np.uint64(epoch))
    word = np.uint64(end - start)
    for index in range(start, end):
        word = (word ^ np.uint64(text[index])) * _SECOND
        word ^= word >> _HALF
    return np.int64(_mixed(value, word) & np.uint64(size - 1))
