"""The fuzzer of the layers below NATS: a few runs of each target, and a broken law that is reported."""

from __future__ import annotations

import random

import pytest

from tests.dissector.fuzzing import layers
from tests.dissector.fuzzing.layers import TARGETS, main


@pytest.mark.parametrize("name", TARGETS)
def test_some_runs_hold(name: str) -> None:
    for run in range(12):
        TARGETS[name](random.Random(f"7:{name}:{run}"))


def test_a_broken_law_is_printed_with_what_makes_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(rng: random.Random) -> None:
        assert rng.random() < 0.5, "a law"

    monkeypatch.setitem(layers.TARGETS, "s2_block", broken)
    assert main(["5", "--seed", "3", "--target", "s2_block"]) == 1
    output = capsys.readouterr()
    assert "s2_block: broken by --target s2_block --seed 3 --run " in output.out
    assert "a law" in output.err
    run = output.out.split("--run ")[1].split()[0]
    assert main(["5", "--seed", "3", "--target", "s2_block", "--run", run]) == 1
    assert f"--run {run}\n" in capsys.readouterr().out
