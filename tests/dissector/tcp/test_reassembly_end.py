"""When all bytes of a stream are known to be there."""

from __future__ import annotations

import pytest

from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.tcp.reassembly import Stream

from tests.support.segments import BASE, acking, oddities, opened, segment
from tests.support.tcp_conversation import ACK, FIN


def test_a_stream_is_complete_with_everything_before_its_fin() -> None:
    stream = opened()
    assert not stream.is_complete
    stream.push(segment(BASE + 4, b"\r\n", ACK | FIN))
    assert not stream.is_complete
    stream.push(segment(BASE, b"PING"))
    assert stream.is_complete
    late = stream.push(segment(BASE + 4, b"\r\n")) + stream.push(segment(BASE + 7, b"more"))
    assert oddities(late) == [(Anomaly.DATA_AFTER_FIN, 7, 4)] and stream.finish() == []


def test_a_stream_without_its_first_byte_is_not_complete() -> None:
    stream = Stream()
    stream.push(segment(BASE, b"", ACK | FIN))
    assert not stream.is_complete


@pytest.mark.parametrize("data", [b"", b"PING\r\n", b"PUB a 100\r\n" + bytes(100) + b"\r\n"])
@pytest.mark.parametrize("acked", [False, True])
def test_a_packed_stream_says_the_same_of_what_comes_late(data: bytes, acked: bool) -> None:
    end = BASE + len(data)

    def outcome(
        packed: bool,
    ) -> tuple[list[tuple[Anomaly, int, int]], tuple[int, ...], int, int | None]:
        stream = opened()
        if data:
            stream.push(segment(BASE, data))
        stream.push(segment(end, b"", ACK | FIN))
        if acked:
            stream.acked(acking(len(data) + 1))
        assert stream.is_complete
        if packed:
            stream.shorten()
            state = stream.packed()
            stream = Stream()
            stream.unpack(state)
            assert stream.is_complete
        late = stream.push(segment(BASE, data)) + stream.push(segment(end - 1, b"x"))
        late += stream.push(segment(end + 1, b"more")) + stream.push(segment(end, b"", ACK | FIN))
        late += stream.acked(acking(len(data) + 9)) + stream.finish()
        counts = stream.missing_bytes, stream.retransmitted_bytes, stream.out_of_order
        return oddities(late), counts, stream.offset, stream.isn

    assert outcome(packed=True) == outcome(packed=False)
    assert (Anomaly.DATA_AFTER_FIN, len(data) + 1, 4) in outcome(packed=True)[0]
