"""One session in full."""

from __future__ import annotations

from pathlib import Path

from dissect.nats import Options, sessions
from dissect.nats.story import session_story

CORE = str(Path(__file__).parents[2] / "samples" / "captures" / "core-2.15.1.pcap")


def test_one_session_in_full() -> None:
    record = max(sessions([CORE]), key=lambda row: row.subscriptions)
    story = session_story([CORE], record.session[:7], Options())
    assert story and story[0] == record
    assert {"INFO", "CONNECT", "SUB"} <= {row.op for row in story[1]}
    assert {row.session for row in story[1]} == {record.session}


def test_no_such_session() -> None:
    assert session_story([CORE], "no such id", Options()) is None
