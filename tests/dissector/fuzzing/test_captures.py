"""The fuzzer of captures: two seconds of it in every run, and the proof that it sees what it looks for."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats import CaptureError, FrameRecord
from dissect.nats.framing.frame_stream import ByteCounts
from dissect.nats.pipeline import records

from tests.dissector.fuzzing import captures
from tests.dissector.fuzzing.captures import TABLES, Case, case_of, check, good_frames
from tests.dissector.fuzzing.harms import HARMS, NAMES, SPOILS, Harm, Spoil, sample
from tests.support.damage import pcap_bytes
from tests.support.paths import CAPTURES

NAME = "leafnode-2.15.1.pcap"
GOOD = Case(NAME, (CAPTURES / NAME).read_bytes(), len(sample(NAME).records), ("nothing",))


def test_two_seconds_break_no_law() -> None:
    runs, failure = captures.run(2, random.randrange(2**32))
    assert failure is None, str(failure)
    assert runs  # a busy machine does few


def test_the_same_numbers_make_the_same_case(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case_of(1, run) for run in range(20)]
    assert any(case.data.startswith(b"\x1f\x8b") for case in cases)
    monkeypatch.setattr(time, "time", lambda: 1e9)  # gzip's header has a place for it
    assert [case_of(1, run) for run in range(20)] == cases
    assert len({case.data for case in cases}) > 15
    assert case_of(1, 7).data != case_of(2, 7).data


def test_intact_packets_stand_where_they_stood() -> None:
    for run in range(60):
        case = case_of(3, run)
        if case.done[0] == "pcap" and case.done[-1] != "gzip":
            pcap = sample(case.name)
            good = pcap_bytes(pcap.with_records(pcap.records[: case.intact]))
            assert case.data.startswith(good) or not case.intact


def test_what_is_good_holds_the_laws(tmp_path: Path) -> None:
    assert len(good_frames(NAME, GOOD.intact)) > 50
    check(GOOD, tmp_path)


def test_partitions_that_differ_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = replace(GOOD, partition_bytes=5000)
    check(cut, tmp_path)
    monkeypatch.setattr(captures, "in_partitions", lambda paths, size: [])
    with pytest.raises(AssertionError, match="partitions of 5000 bytes differ"):
        check(cut, tmp_path)


@pytest.mark.parametrize("harm", sorted(set(HARMS), key=str), ids=lambda harm: harm.__name__)
def test_harm_begins_where_it_should(harm: Harm) -> None:
    pcap = sample(NAME)
    records = list(pcap.records)
    changed = 0
    for seed in range(20):
        after = harm(records, 30, pcap.linktype, random.Random(seed))
        assert after[:30] == records[:30]
        changed += after != records
    assert changed > 5


@pytest.mark.parametrize("spoil", SPOILS, ids=lambda spoil: spoil.__name__)
def test_files_are_spoilt_from_there_on(spoil: Spoil) -> None:
    data = bytes(range(256)) * 20
    for seed in range(10):
        assert spoil(data, 1000, random.Random(seed))[:1000] == data[:1000]


def broken_rows(change: Callable[[list[object]], object]) -> Callable[..., list[object]]:
    """`records`, and what `change` does to them."""

    def reported(paths: list[str], tables: object = TABLES, *rest: object) -> list[object]:
        rows: list[object] = list(records(paths, tables, *rest))  # type: ignore[arg-type]  # as called
        change(rows)
        return rows

    return reported


def forget(rows: list[object]) -> None:
    rows.remove(next(row for row in rows if isinstance(row, FrameRecord) and row.op == "PING"))


def invent(rows: list[object]) -> None:
    frame = next(row for row in rows if isinstance(row, FrameRecord) and row.op == "PING")
    rows.append(replace(frame, offset=frame.offset + 1))


def move(rows: list[object]) -> None:
    frame = next(row for row in rows if isinstance(row, FrameRecord) and row.op == "PING")
    frame.ts_ns += 1


def refuse(rows: list[object]) -> None:
    raise CaptureError("case", "is not a capture")


@pytest.mark.parametrize(
    "change, law",
    [
        (forget, "tables do not agree"),
        (invent, "frames overlap"),
        (move, "not reported"),
        (refuse, "is refused"),
    ],
)
def test_wrong_rows_break_the_laws(
    change: Callable[[list[object]], object],
    law: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good_frames(NAME, GOOD.intact)
    monkeypatch.setattr(captures, "records", broken_rows(change))
    with pytest.raises(AssertionError, match=law):
        check(GOOD, tmp_path)


def test_sums_that_do_not_close_break_the_laws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ByteCounts, "span", property(lambda counts: counts.framed + 1))
    with pytest.raises(AssertionError, match="sums do not close"):
        check(GOOD, tmp_path)


def test_time_memory_and_tracebacks_break_the_laws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(captures, "SECONDS", 0.0)
        with pytest.raises(AssertionError, match="seconds"):
            check(GOOD, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(captures, "GROWTH_BYTES", 0)
        with pytest.raises(AssertionError, match="MB"):
            check(GOOD, tmp_path)
    with pytest.raises(AssertionError, match="exit status 1"):
        monkeypatch.setattr(CliRunner, "invoke", lambda *_: Ended(1))
        check(GOOD, tmp_path)


class Ended:
    """The result of a command that ended so."""

    exception = None
    output = ""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code


def test_a_broken_law_is_printed_with_what_makes_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(case: Case, folder: Path) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr(captures, "check", broken)
    kept = tmp_path / "kept"
    assert captures.main(["5", "--seed", "3", "--run", "7", "--keep", str(kept)]) == 1
    printed = capsys.readouterr().out
    assert "1 runs" in printed and "KeyError: 'surprise'" in printed
    assert "--seed 3 --run 7" in printed and case_of(3, 7).name in printed
    assert kept.read_bytes() == case_of(3, 7).data
    monkeypatch.setattr(captures, "check", lambda case, folder: None)
    assert captures.main(["0.05", "--seed", "3"]) == 0
    assert set(NAMES) > {case_of(3, 7).name}
