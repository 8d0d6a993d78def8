"""Connections are taken back with the packets of runs that are long gone, and in the middle of frames."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.kernel import owner

from tests.dissector.fuzzing.kernel import generated
from tests.dissector.kernel.both import KERNEL, kept_of

pytestmark = KERNEL


@pytest.mark.parametrize("runs", [1, 3])
def test_packets_of_forgotten_runs_are_stored(
    runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "_MOST_RUNS", runs)
    assert kept_of(generated(2), tmp_path, 1500) > 100


def test_full_tables_are_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "_MOST_SUBS", 3)
    monkeypatch.setattr(owner, "_MOST_ASKED", 5)
    assert kept_of(generated(0), tmp_path, 3000) > 100
