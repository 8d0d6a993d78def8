"""The fuzzer: two seconds of it in every test run, and the proof that it sees what it looks for."""

from __future__ import annotations

import random

import pytest

from tests.protocol import fuzz
from tests.protocol.fuzz import MUTATIONS, Case, case_of, check, seeds
from tests.protocol.table import CLIENT


def test_two_seconds_break_no_law() -> None:
    runs, failure = fuzz.run(2, random.randrange(2**32))
    assert failure is None, str(failure)
    assert runs > 100


def test_the_same_numbers_make_the_same_case() -> None:
    assert [case_of(1, run) for run in range(50)] == [case_of(1, run) for run in range(50)]
    assert len({case_of(1, run) for run in range(50)}) > 40
    assert case_of(1, 7) != case_of(2, 7)


def test_every_good_stream_holds_the_laws() -> None:
    for context, wire in seeds():
        check(Case(context, wire, (1, len(wire) // 2)))


@pytest.mark.parametrize("mutation", MUTATIONS[:-2], ids=lambda mutation: mutation.__name__)
def test_mutations_take_any_bytes(mutation: object) -> None:
    assert callable(mutation)
    rng = random.Random(1)
    for wire in (b"", b"\n", b"PING\r\n", bytes(range(256))):
        for _ in range(20):
            assert isinstance(mutation(wire, rng), bytes)


def test_a_broken_law_is_printed_with_what_makes_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(case: Case) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr(fuzz, "check", broken)
    assert fuzz.main(["--seed", "3", "--seconds", "5"]) == 1
    printed = capsys.readouterr().out
    assert "1 runs" in printed and "KeyError: 'surprise'" in printed
    assert "case_of(3, 0)" in printed and repr(case_of(3, 0).wire) in printed


def test_seconds_are_given_either_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[float] = []

    def pretend(seconds: float, seed: int) -> tuple[int, None]:
        asked.append(seconds)
        return 1, None

    monkeypatch.setattr(fuzz, "run", pretend)
    for arguments in (["7"], ["--seconds", "8"], []):
        assert fuzz.main([*arguments, "--seed", "1"]) == 0
    assert asked == [7, 8, 60]
    assert "1 runs" in capsys.readouterr().out


def test_wrong_results_break_the_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    good = Case(CLIENT, b"PUB a 1\r\nx\r\n", (3,))
    check(good)
    monkeypatch.setattr(fuzz, "by_bytes", lambda wire: [wire[:-1]])
    with pytest.raises(AssertionError, match="chunking matters"):
        check(good)
