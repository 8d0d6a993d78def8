"""What a survey says of a stretch: exact states of what begins there, strides for the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dissect.nats import Options
from dissect.nats.partition import survey as surveying
from dissect.nats.partition.advance import Deltas, unpacked
from dissect.nats.partition.checkpoint import Dissector
from dissect.nats.partition.survey import Survey
from dissect.nats.pipeline import segments
from dissect.nats.tables import TABLES
from dissect.nats.types import Segment

from .leaping import NAME, PUB, packets, stride_of
from tests.support.graphs import difference
from tests.support.paths import CAPTURES


def _survey(every: list[Segment], options: Options = Options()) -> Survey:
    survey = Survey(list(TABLES), options)
    survey.run(every)
    return survey


@pytest.mark.parametrize("name", ["core-2.15.1.pcap", "midstream.pcap"])
def test_states_are_those_of_a_dissection(name: str) -> None:
    every = list(segments([str(CAPTURES / name)]))[:60]
    states = _survey(every).states()
    dissection = Dissector(list(TABLES), Options())
    list(dissection.take(every))
    expected = dissection.save()
    assert list(states) == list(expected)
    for key, state in expected.items():
        assert not difference(dissection._unpacked(state), dissection._unpacked(states[key]))


def test_what_begins_in_the_stretch_has_no_stride() -> None:
    every = list(segments([str(CAPTURES / "core-2.15.1.pcap")]))
    assert _survey(every).states()
    assert not _survey(every).strides()


def test_carried_subjects_are_kept_for_subscriptions_only() -> None:
    message = b"RMSG $G a.b 5\r\nhello\r\n"
    every = packets(*[(0, message)] * 20)
    for tables, kept in (["subscriptions"], True), (["sessions"], False):
        survey = Survey(tables, Options())
        survey.run(every)
        steps = unpacked(survey.strides()[NAME]).steps or []
        sums = [step.sums[0] for step in steps if isinstance(step, Deltas)]
        assert sums and all(amount and bool(amount.carried) is kept for amount in sums)


def test_the_latest_time_is_that_of_all_flows() -> None:
    every = packets(*[(0, PUB)] * 4)
    other = replace(every[0], key=b"\n\0\0\1\n\0\0\2\x10\x7e\x10\x7f", ts_ns=10**9)
    stride = stride_of([*every, other])
    assert (stride.last_ns, stride.latest_ns) == (4000, 10**9)


def test_other_flows_than_are_followed_have_no_stride(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "_FLOWS", 0)
    assert not _survey(packets((0, PUB))).strides()


def test_an_endpoint_that_talks_to_itself() -> None:
    key = b"\n\0\0\1\n\0\0\1\x10\x7e\x10\x7e"
    assert not _survey([Segment(1, 1, "a", key, 1, 1, 16, PUB, len(PUB))]).strides()
