"""The record of an archive is stored as JSON."""

from __future__ import annotations

from collections import Counter

from dissect.nats.archive.record import ArchiveCounts, ArchiveRecord, SourceRecord, record_of
from dissect.nats.partition.complete_files import TakenFile


def test_a_record_is_read_as_it_was_written() -> None:
    taken = TakenFile("/captures/a.pcap", 24, 1_700_000_000_000_000_001, False, 5, 7)
    source = SourceRecord("state-000000003-0.pickle", 9, [taken], ["/captures/notes.txt"])
    counts = ArchiveCounts(Counter(packets=3), Counter(udp=1), Counter(frames=2))
    record = ArchiveRecord("about", 3, {"/captures": source}, [("frames", "date=x/y")], counts)
    again = record_of(record.text())
    assert again == record
    (one,) = again.sources["/captures"].taken
    assert (one.changed_ns, one.packets) == (5, 7)
    known = again.sources["/captures"].complete_files()
    assert known.taken == {"/captures/a.pcap": taken} and known.latest_ns == 9
