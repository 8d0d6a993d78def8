"""The table of NATS Streaming over all samples."""

from __future__ import annotations

from dissect.nats.application.streaming.table import STREAMING
from dissect.nats.pipeline import records

from tests.support.paths import CAPTURES


def test_no_other_sample_has_any() -> None:
    found = list(records([str(CAPTURES)], ["streaming"]))
    assert found and found == sorted(found, key=STREAMING.position)
    whole = records([str(CAPTURES / "streaming-2.15.1.pcap")], ["streaming"])
    assert len(found) == len(list(whole))
    for row in found:
        assert all(isinstance(column.cell(row), str) for column in STREAMING.text)
