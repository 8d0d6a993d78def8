"""Arrays take runs, and refuse what does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.kernel import arrays, state
from dissect.nats.kernel.arrays import Arrays, compiling, words_of
from dissect.nats.kernel.state import Stop
from dissect.nats.types import Packets

from tests.dissector.kernel.both import KERNEL

pytestmark = KERNEL

ARP = bytes(12) + b"\x08\x06" + bytes(28)


def run_of(ts_ns: int) -> Packets:
    return Packets("x", 1, ARP, 1, [(ts_ns, 0, len(ARP), len(ARP))])


def test_packets_of_no_connection_are_listed() -> None:
    made = Arrays(4)
    made.control[state.C_EXPIRY] = made.control[state.C_LEAST] = 1 << 60
    made.control[state.C_MOST] = 8
    assert made.load(run_of(5), 1)
    assert made.walk() is Stop.DONE
    assert made.control[state.C_LISTED] == 1


def test_times_beyond_64_bits_do_not_fit() -> None:
    assert not Arrays(4).load(run_of(1 << 70), 1)


def test_the_key_of_a_segment_becomes_words() -> None:
    assert words_of(b"\n\0\0\1\n\0\0\2\x12\x34\x56\x78") == [
        0x0A0000010A000002,
        0,
        0,
        0,
        0x12345678,
    ]
    assert words_of(bytes(32) + b"\0\1\0\2")[4] == 1 << 32 | 0x10002


def test_what_is_said_before_compiling(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(arrays, "FOLDER", tmp_path)
    assert "once on this machine" in compiling()
    (tmp_path / "kernel_1").mkdir()
    (tmp_path / "kernel_1" / "walk.walk-1.py311.nbi").touch()
    assert compiling() == ""
    monkeypatch.setattr(arrays, "FOLDER", None)
    assert "set NUMBA_CACHE_DIR" in compiling()
