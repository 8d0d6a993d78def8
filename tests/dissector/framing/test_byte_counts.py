"""Where the bytes went."""

from __future__ import annotations

from dissect.nats.framing.byte_counts import ByteCounts


def test_the_span_is_the_sum_of_its_parts() -> None:
    assert ByteCounts(framed=100, skipped=20, missing=3, unfinished=4).span == 127
