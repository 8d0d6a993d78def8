"""Every sample without one of its packets: one gap of the right size, nothing invented, all accounted for."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from dissect.nats import FrameRecord
from dissect.nats.schema.records import Record as Row

from tests.dissector.samples.rows import PCAPS, anomalies, frames, known, rewritten, rows, sample
from tests.support.damage import drop
from tests.support.packets import SYN, Place, place_of

LOSSES = 6
# Where a frame went that is not decoded.
GAPS = {"lost", "skipped", "unfinished", "truncated", "protocol_error"}

# Where the layer below NATS makes a loss longer or shorter, and moves what follows: see transport/test_loss.
LAYERED = ("s2", "leafnode-s2", "websocket", "leafnode-websocket")

Span = tuple[str, str, int, int]


def candidates(name: str) -> list[tuple[int, Place]]:
    """Packets with payload that no other packet repeats, of which the other side, or later bytes, tell that
    they were sent, and that do not begin a stream that was joined midstream."""
    pcap = sample(name)
    places = [place_of(record, pcap.linktype) for record in pcap.records]
    begun = {place.key for place in places if place and place.flags & SYN}
    seen: Counter[tuple[bytes, int]] = Counter()
    last: dict[bytes, int] = {}
    for place in places:
        if place and place.length:
            seen.update((place.key, seq) for seq in range(place.seq, place.seq + place.length))
            last[place.key] = max(last.get(place.key, 0), place.seq + place.length)
    found = []
    for at, place in enumerate(places):
        if place and place.length and not place.flags & SYN and place.key in begun:
            alone = all(
                seen[place.key, seq] == 1 for seq in range(place.seq, place.seq + place.length)
            )
            if alone and place.seq + place.length < last[place.key]:
                found.append((at, place))
    return found


def losses(found: list[Row]) -> Counter[Span]:
    return Counter(
        (row.session, row.sender, row.offset, row.bytes)
        for row in anomalies(found)
        if row.anomaly == "lost"
    )


def content(row: FrameRecord) -> tuple[object, ...]:
    return (row.session, row.sender, row.offset, row.op, row.subject, row.reply, row.total_bytes)


@pytest.mark.parametrize("name", [name for name in PCAPS if not name.startswith(LAYERED)])
def test_one_packet_lost(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    positions = candidates(name)
    before = list(known(name))
    truth = {content(row): row for row in frames(before)}
    for at, place in rng.sample(positions, min(LOSSES, len(positions))):
        path = rewritten(tmp_path, name, drop(sample(name).records, {at}))
        after = rows([path], ("frames", "anomalies", "sessions"))
        new = losses(after) - losses(before)
        assert not losses(before) - losses(after)
        if name != "http.pcap":
            ((_, _, offset, size),) = new.elements()
            assert size == place.length
        decoded = {content(row): row for row in frames(after)}
        assert decoded.keys() <= truth.keys(), f"without packet {at + 1} something is invented"
        check_lost(at, truth, decoded, after)


def check_lost(
    at: int,
    truth: dict[tuple[object, ...], FrameRecord],
    decoded: dict[tuple[object, ...], FrameRecord],
    after: list[Row],
) -> None:
    """Each frame that is not decoded lies, in part at least, where bytes are known not to be decoded."""
    gaps = [row for row in anomalies(after) if row.anomaly in GAPS]
    for key in truth.keys() - decoded.keys():
        row = truth[key]
        assert any(
            (gap.session, gap.sender) == (row.session, row.sender)
            and gap.offset < row.offset + row.total_bytes
            and row.offset < gap.offset + max(gap.bytes, 1)
            for gap in gaps
        ), f"without packet {at + 1}: {row} is gone without a word"
