"""One session: its timeline_entries in order, what is odd in its place, and ids that are not clear."""

from __future__ import annotations

import pickle

import pytest

from dissect.nats import Options, anomalies, frames, sessions
from dissect.nats.commands.session.detail import (
    Heading,
    TimelineEntry,
    Unclear,
    is_whole,
    only,
    session_story,
    timeline_entries,
)
from dissect.nats.schema.records import AnomalyRecord, FrameRecord, SessionRecord

from tests.support.paths import CAPTURES

CORE = str(CAPTURES / "core-2.15.1.pcap")
SNAP = str(CAPTURES / "snap96.pcap")


def entries_of(path: str, start: str) -> list[TimelineEntry]:
    return list(timeline_entries([path], start, Options()))


def test_a_session_from_its_heading_to_its_row() -> None:
    row = max(sessions([CORE]), key=lambda row: row.subscriptions)
    heading, *middle, last = entries_of(CORE, row.session[:7])
    ends = row.originator, row.responder
    assert heading == Heading(row.session, row.kind, *ends, row.first_ns)
    assert last == row
    own = [frame for frame in frames([CORE]) if frame.session == row.session]
    assert [entry for entry in middle if isinstance(entry, FrameRecord)] == own


@pytest.mark.parametrize("name", ["snap96.pcap", "damaged-loss-reorder.pcap", "midstream.pcap"])
def test_what_is_missing_is_reported_once_and_in_its_place(name: str) -> None:
    path = str(CAPTURES / name)
    odd = list(anomalies([path]))
    for session in {row.session for row in odd}:
        passed = {"originator": (0, 0), "responder": (0, 0)}
        found = []
        for entry in entries_of(path, session):
            if isinstance(entry, AnomalyRecord):
                found.append(entry)
                offset, ts_ns = passed[entry.sender]
                assert entry.offset >= offset or entry.ts_ns >= ts_ns  # found out late
            elif isinstance(entry, FrameRecord):
                passed[entry.sender] = entry.offset, entry.ts_ns
        own = [row for row in odd if row.session == session]
        assert sorted(map(str, found)) == sorted(map(str, own))


def test_a_story_tells_what_matters() -> None:
    row = max(sessions([CORE]), key=lambda row: row.subscriptions)
    story, timeline, summary = session_story([CORE], row.session, Options())
    assert story == row and not summary
    ops = {entry.op for entry in timeline if isinstance(entry, FrameRecord)}
    assert {"INFO", "CONNECT", "SUB"} <= ops and "MSG" not in ops
    (snapped,) = (row for row in sessions([SNAP]) if row.session.startswith("cb76"))
    _, timeline, _ = session_story([SNAP], snapped.session, Options())
    assert {entry.anomaly for entry in timeline if isinstance(entry, AnomalyRecord)}


def test_an_id_that_is_not_clear() -> None:
    with pytest.raises(Unclear, match="no session zz in the captures") as none:
        entries_of(CORE, "zz")
    assert none.value.ids == {} or not none.value.ids
    ids = [row.session for row in sessions([CORE])]
    with pytest.raises(Unclear) as several:
        entries_of(CORE, "")
    assert sorted(several.value.ids) == sorted(ids)
    assert all(session in str(several.value) for session in ids)
    assert str(pickle.loads(pickle.dumps(several.value))) == str(several.value)
    assert str(Unclear("a", [f"a{number}" for number in range(30)])).endswith(" and 10 more")


def test_a_session_of_another_kind_than_those_asked_for() -> None:
    row = next(iter(sessions([CORE])))
    for show in (session_story, timeline_entries):
        with pytest.raises(Unclear, match=f"no session {row.session} in the captures"):
            list(show([CORE], row.session, Options(kind="route")))
    assert session_story([CORE], row.session, Options(kind="client")).row == row


def test_only_one_row() -> None:
    rows = list(sessions([CORE]))
    assert list(only(rows, rows[2].session[:9])) == [rows[2]]
    for start in ("", "zz"):
        with pytest.raises(Unclear):
            list[SessionRecord](only(rows, start))


def test_an_id_is_whole_or_the_start_of_one() -> None:
    assert is_whole("e6a840a4fdcb5c2c") and not is_whole("e6a8")
