"""Handshakes before the bytes of a connection: which bytes are taken, and which are handed on."""

from __future__ import annotations

from time import process_time

import pytest

from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.transport.handshake import MESSAGE_BYTES, HandshakeTransform
from dissect.nats.types import Chunk, Gap, Oddity


class Lines(HandshakeTransform):
    """Messages are lines that begin with `#`; `#!` refuses."""

    def message(self, data: bytes) -> int | None:
        if not data.startswith(b"#"):
            return None
        size = data.find(b"\n") + 1
        if size and data.startswith(b"#!"):
            self.refuse(data[2 : size - 1].decode())
        return size


def chunk(offset: int, data: bytes) -> Chunk:
    return Chunk(offset, offset, "t.pcap", offset, data)


def test_bytes_after_the_handshake_keep_their_offsets_and_packets() -> None:
    lines = Lines()
    assert lines.feed(chunk(10, b"#a\n#")) == [] and not lines.done
    (rest,) = lines.feed(chunk(14, b"b\nPING"))
    assert rest == Chunk(14, 14, "t.pcap", 16, b"PING")
    assert lines.done and (lines.counts.overhead, lines.counts.span) == (6, 6)


def test_a_refusal_is_reported_where_it_ends() -> None:
    (found,) = Lines().feed(chunk(0, b"#!no\n"))
    assert isinstance(found, Oddity)
    assert (found.anomaly, found.text) == (Anomaly.PROXY_REFUSED, "no")
    assert (found.offset, found.length) == (0, 5)


def test_a_gap_ends_the_handshake_and_skips_what_was_held() -> None:
    lines = Lines()
    lines.feed(chunk(0, b"#a\n#b"))
    gap = Gap(9, 9, "t.pcap", 5, 4)
    assert lines.feed(gap) == [gap] and lines.done
    assert (lines.counts.overhead, lines.counts.skipped) == (3, 2)


def test_an_oddity_of_the_layer_below_is_passed_on() -> None:
    odd = Oddity(1, 1, "t.pcap", 0, 0, Anomaly.OVERLAP_DIFFERS)
    lines = Lines()
    assert lines.feed(odd) == [odd] and not lines.done


@pytest.mark.parametrize("size", [999, 50_000])
def test_a_message_that_is_too_long_ends_the_handshake(size: int) -> None:
    lines, data = Lines(), b"#a\n#" + b"x" * MESSAGE_BYTES + b"\n"
    found = [
        item
        for at in range(0, len(data), size)
        for item in lines.feed(chunk(at, data[at : at + size]))
    ]
    assert lines.done and lines.counts.overhead == 3
    rest = [item for item in found if isinstance(item, Chunk)]
    assert rest[0].offset == 3 and b"".join(item.data for item in rest) == data[3:]


def test_time_is_linear_in_the_messages_of_a_chunk() -> None:
    def seconds(count: int) -> float:
        lines, data = Lines(), b"#\n" * count
        start = process_time()
        assert lines.feed(chunk(0, data)) == []
        passed = process_time() - start
        assert lines.counts.overhead == len(data)
        return passed

    # All bytes that were left were copied for each message: 16 times as many took 200 times as long.
    assert seconds(320_000) < 60 * min(seconds(20_000) for _ in range(3))
