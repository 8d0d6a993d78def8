"""Layers below NATS, whose bytes come in other packets: the frames are the same.

A packet may hold the end of one layer's handshake and the first frames of the next, which real servers send
together now and then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

import pytest

from dissect.nats import FrameRecord, Options
from dissect.nats.engine.dissection import Dissection
from dissect.nats.tcp.flow import undirected
from dissect.nats.types import Segment

from tests.dissector.transport.test_loss import NAMES
from tests.support.packets import FIN, RST, SYN
from tests.support.paths import CAPTURES
from tests.support.segments import segments

TLS = "tls-keys-2.15.1"
OPTIONS = Options(keylog=[str(CAPTURES / f"{TLS}.keylog")])
MOST_BYTES = 60_000  # of one packet
Frames = dict[tuple[str, str], list[tuple[str, str | None, int]]]


def joined(source: Iterable[object], most_bytes: int) -> Iterator[Segment]:
    """Segments with payload, those that one side sends in a row as one. Acknowledgements are left out."""
    waiting: dict[bytes, Segment] = {}
    for each in source:
        if not isinstance(each, Segment) or not (each.payload or each.flags & (SYN | FIN | RST)):
            continue
        flow = undirected(each.key)
        before = waiting.pop(flow, None)
        if before and before.key == each.key and len(before.payload) < most_bytes:
            if before.seq + before.length == each.seq and not each.flags & (SYN | FIN | RST):
                payload = bytes(before.payload) + bytes(each.payload)
                length = before.length + each.length
                waiting[flow] = replace(before, payload=payload, length=length)
                continue
        if before:
            yield before
        if each.flags & (SYN | FIN | RST):
            yield each
        else:
            waiting[flow] = each
    yield from waiting.values()


def frames(source: Iterable[Segment]) -> Frames:
    found: Frames = {}
    dissection = Dissection(("frames",), OPTIONS)
    for rows in chain(dissection.feed(source), dissection.finish()):
        for row in rows.records:
            assert isinstance(row, FrameRecord)
            place = row.session, row.sender
            found.setdefault(place, []).append((row.op, row.subject, row.total_bytes))
    return found


@pytest.mark.parametrize("name", [*NAMES, f"{TLS}.pcap"])
def test_packets_that_are_joined_give_the_same_frames(name: str) -> None:
    path = [str(CAPTURES / name)]
    apart = frames(joined(segments(path), 0))
    together = list(joined(segments(path), MOST_BYTES))
    assert len(together) < len(list(joined(segments(path), 0)))
    assert frames(together) == apart
    assert sum(map(len, apart.values())) > 15
