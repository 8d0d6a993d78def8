"""Ways are found by their keys, and subscriptions by their epochs and sids."""

from __future__ import annotations

import numpy as np

from dissect.nats.kernel import hashes, state

from tests.dissector.kernel.both import KERNEL

pytestmark = KERNEL

SEED = 12345


def test_ways_are_found_until_they_are_removed() -> None:
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 1 << 62, (64, state.KEY_WORDS)).astype(np.uint64)
    table = np.zeros(128, np.int64)
    for way in range(64):
        assert hashes.find_way(keys, table, keys[way], SEED) == -1
        hashes.add_way(keys, table, way, SEED)
    for way in range(0, 64, 2):
        hashes.remove_way(keys, table, way, SEED)
    found = [hashes.find_way(keys, table, keys[way], SEED) for way in range(64)]
    assert found == [-1 if way % 2 == 0 else way for way in range(64)]
    hashes.add_way(keys, table, 0, SEED)
    assert hashes.find_way(keys, table, keys[0], SEED) == 0


def test_subscriptions_of_other_epochs_are_others() -> None:
    subs = np.zeros((64, state.U_WIDTH), np.int64)
    rows = {}
    for epoch in range(1, 5):
        for sid in range(8):
            row = hashes.find_sub(subs, epoch, sid, SEED)
            assert row < 0
            subs[-1 - row, : state.U_SID + 1] = epoch, sid
            rows[epoch, sid] = -1 - row
    assert len(set(rows.values())) == 32
    assert all(hashes.find_sub(subs, *key, SEED) == row for key, row in rows.items())


def test_bits_depend_on_subject_and_epoch() -> None:
    text = np.frombuffer(b"_INBOX.a_INBOX.b_INBOX.a", np.uint8)
    bits = [hashes.filter_bit(text, at, at + 8, 7, SEED, 1 << 20) for at in (0, 8, 16)]
    assert bits[0] == bits[2] != bits[1]
    assert hashes.filter_bit(text, 0, 8, 8, SEED, 1 << 20) != bits[0]
