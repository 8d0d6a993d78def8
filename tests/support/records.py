"""Records made by hand, for tests that only show, sort or write them, and the order of records."""

from __future__ import annotations

from dissect.nats.schema.declaration import SortPosition
from dissect.nats.schema.records import FrameRecord, Record, SessionRecord
from dissect.nats.tables import TABLE_OF


def place_of(record: Record) -> SortPosition:
    """The position of a record among those of its table."""
    return TABLE_OF[record.__class__].position(record)


def frame_record() -> FrameRecord:
    """A frame whose texts hold what each output format has to escape."""
    return FrameRecord(
        session="s",
        number=1,
        ts_ns=2,
        packet=3,
        capture="c,1",
        sender="originator",
        kind="client",
        op="HPUB",
        subject='a\x1b"\u2028',
        headers={"A": ["1", "2"]},
        total_bytes=9,
        offset=0,
    )


def session_record() -> SessionRecord:
    """A session with nothing but the fields that every session has."""
    return SessionRecord(
        session="s",
        capture="c",
        kind="client",
        transport="tcp",
        originator="a:1",
        responder="b:2",
        first_ns=1,
        last_ns=2,
        start="handshake",
        end="open",
    )
