"""What a survey says of a partition: exact states of what begins there, summaries for the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dissect.nats import Options
from dissect.nats.partition import survey as surveying
from dissect.nats.partition.checkpoint import Checkpoints
from dissect.nats.partition.chunk_summary import Deltas, FrameBatch, unpacked
from dissect.nats.partition.survey import Survey
from dissect.nats.tables import FROM_ENGINE
from dissect.nats.types import Segment

from tests.dissector.partition.advancing import NAME, PUB, packets, summary_of
from tests.support.graphs import difference
from tests.support.paths import CAPTURES
from tests.support.segments import segments


def _survey(every: list[Segment], options: Options = Options()) -> Survey:
    survey = Survey(list(FROM_ENGINE), options)
    survey.run(every)
    return survey


@pytest.mark.parametrize("name", ["core-2.15.1.pcap", "midstream.pcap"])
def test_states_of_a_survey_are_those_of_a_dissection(name: str) -> None:
    every = list(segments([str(CAPTURES / name)]))[:60]
    states = _survey(every).states()
    dissection = Checkpoints(list(FROM_ENGINE), Options())
    list(dissection.feed(every))
    expected = dissection.save()
    assert list(states) == list(expected)
    for key, state in expected.items():
        assert not difference(dissection._unpacked(state), dissection._unpacked(states[key]))


def test_a_flow_that_begins_in_the_chunk_has_no_summary() -> None:
    every = list(segments([str(CAPTURES / "core-2.15.1.pcap")]))
    assert _survey(every).states()
    assert not _survey(every).summaries()


def test_a_busy_midstream_flow_has_a_summary_and_no_state() -> None:
    survey = _survey(packets(*[(0, PUB)] * 256))
    assert survey.states() and not survey.summarized()
    survey = _survey(packets(*[(0, PUB)] * 257))
    assert not survey.states()
    assert survey.summarized() == survey.summaries().keys() == {NAME}


@pytest.mark.parametrize("frame", [b"SUB a 1\r\n", b"PING\r\n", b"PUB a r 1\r\na\r\n"])
def test_a_summary_keeps_frames_that_change_the_session(frame: bytes) -> None:
    survey = _survey(packets(*[(0, PUB)] * 300, (0, frame)))
    steps = unpacked(survey.summaries()[NAME]).steps
    assert steps and any(isinstance(step, FrameBatch) for step in steps)


def test_a_flow_with_a_packet_out_of_order_has_neither_state_nor_summary() -> None:
    every = packets(*[(0, PUB)] * 300)
    every[280], every[281] = every[281], every[280]
    survey = _survey(every)
    assert not survey.states() and not survey.summaries()
    assert survey.summarized() == {NAME}


def test_a_flow_without_nats_has_a_state_and_no_summary() -> None:
    survey = _survey(packets(*[(0, bytes(100))] * 300))
    assert survey.states().keys() == {NAME} and not survey.summarized()


def test_the_time_of_a_summarized_flow_ends_idle_flows() -> None:
    other = b"\n\0\0\7\n\0\0\1\x9c\x40\x10\x7e"
    every = packets(*[(0, PUB)] * 300)
    silent = replace(every[0], ts_ns=1, key=other, flags=2, payload=b"", length=0)
    late = replace(every[-1], ts_ns=25 * 3600 * 10**9, seq=every[-1].seq + len(PUB))
    later = replace(late, ts_ns=late.ts_ns + 1, seq=late.seq + len(PUB))
    assert len(_survey([silent, *every]).states()) == 1
    assert len(_survey([silent, *every, late]).states()) == 1  # one time alone may be wrong
    assert len(_survey([silent, *every, late, later]).states()) == 0


def test_carried_subjects_are_kept_for_subscriptions_only() -> None:
    message = b"RMSG $G a.b 5\r\nhello\r\n"
    every = packets(*[(0, message)] * 20)
    for tables, kept in (["subscriptions"], True), (["sessions"], False):
        survey = Survey(tables, Options())
        survey.run(every)
        steps = unpacked(survey.summaries()[NAME]).steps or []
        sums = [step.sums[0] for step in steps if isinstance(step, Deltas)]
        assert sums and all(amount and bool(amount.carried) is kept for amount in sums)


def test_the_latest_time_is_that_of_all_flows() -> None:
    every = packets(*[(0, PUB)] * 4)
    other = replace(every[0], key=b"\n\0\0\1\n\0\0\2\x10\x7e\x10\x7f", ts_ns=10**9)
    summary = summary_of([*every, other])
    assert (summary.last_ns, summary.latest_ns) == (4000, 10**9)


def test_flows_beyond_the_limit_have_no_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "_FLOWS", 0)
    assert not _survey(packets((0, PUB))).summaries()


def test_a_flow_with_equal_endpoints_has_no_summary() -> None:
    key = b"\n\0\0\1\n\0\0\1\x10\x7e\x10\x7e"
    assert not _survey([Segment(1, 1, "a", key, 1, 1, 16, PUB, len(PUB))]).summaries()
