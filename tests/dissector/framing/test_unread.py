"""Items that wait for their streams: in order, and withdrawn by a layer that begins before them."""

from __future__ import annotations

from dissect.nats.framing.frame_stream import FrameStream
from dissect.nats.framing.resync.resynchronizer import Quota
from dissect.nats.framing.unread import Unread
from dissect.nats.types import Chunk, Direction


def chunk(number: int) -> Chunk:
    return Chunk(number, number, "t.pcap", number, b"x")


ONE, OTHER = (FrameStream(way, Quota(), False) for way in Direction)


def test_items_come_in_order() -> None:
    items = [(ONE, chunk(1)), (OTHER, chunk(2)), (ONE, chunk(3))]
    unread = Unread()
    assert list(unread.each(items)) == items
    assert unread.withdraw(ONE) == []


def test_a_layer_withdraws_those_of_its_stream() -> None:
    unread = Unread()
    outer = unread.each([(ONE, chunk(1)), (ONE, chunk(4)), (OTHER, chunk(5))])
    next(outer)
    inner = unread.each([(ONE, chunk(2)), (ONE, chunk(3))])
    next(inner)
    assert unread.withdraw(ONE) == [chunk(3), chunk(4)]
    assert list(inner) == []
    assert list(outer) == [(OTHER, chunk(5))]
