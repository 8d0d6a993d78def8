"""Plaintext: offsets of its own, and a note of all that was skipped."""

from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.transport.plaintext import Plaintext
from dissect.nats.types import Chunk, Gap, Oddity


def chunk(number: int, offset: int, data: bytes = b"x") -> Chunk:
    return Chunk(number, number, "t.pcap", offset, data)


def test_offsets_begin_at_the_first_item_and_count_plaintext() -> None:
    plain = Plaintext()
    plain.take(chunk(1, 100))
    plain.carry(b"abc", 1)
    plain.take(chunk(2, 101))
    plain.carry(b"", 1)
    plain.carry(b"de", 1)
    assert plain.hand_on() == [chunk(1, 100, b"abc"), chunk(2, 103, b"de")]
    assert plain.hand_on() == []
    assert plain.latest.number == 2
    assert plain.counts.span == plain.counts.carried == 3


def test_small_pieces_of_one_item_are_one_chunk() -> None:
    plain = Plaintext()
    plain.take(chunk(1, 0))
    plain.carry(b"a", 1)
    plain.carry(b"b", 1)
    plain.note(Anomaly.WEBSOCKET_CLOSE, "1002")
    plain.carry(b"c", 1)
    plain.carry(bytes(20_000), 1)
    plain.carry(b"d", 1)
    plain.take(chunk(2, 9))
    plain.carry(b"e", 1)
    plain.pass_on(Oddity(2, 2, "t.pcap", 0, 0, Anomaly.LIMIT))
    plain.carry(b"f", 1)
    assert plain.hand_on() == [
        chunk(1, 0, b"ab"),
        Oddity(1, 1, "t.pcap", 2, 0, Anomaly.WEBSOCKET_CLOSE, "1002"),
        chunk(1, 2, b"c"),
        chunk(1, 3, bytes(20_000)),
        chunk(1, 20_003, b"d"),
        chunk(2, 20_004, b"e"),
        Oddity(2, 2, "t.pcap", 0, 0, Anomaly.LIMIT),
        chunk(2, 20_005, b"f"),
    ]


def test_skipped_bytes_after_plaintext_are_a_gap_in_it() -> None:
    plain = Plaintext()
    plain.take(chunk(1, 0))
    plain.skip(4)
    plain.carry(b"a", 1)
    plain.take(chunk(2, 5))
    plain.skip(2)
    plain.skip(1)
    plain.carry(b"b", 1)
    assert plain.finish() == [
        Oddity(1, 1, "t.pcap", 0, 4, Anomaly.SKIPPED),
        chunk(1, 0, b"a"),
        Oddity(2, 2, "t.pcap", 1, 3, Anomaly.SKIPPED),
        Gap(2, 2, "t.pcap", 1, 3),
        chunk(2, 4, b"b"),
    ]


def test_skipped_bytes_beside_a_gap_are_no_second_one() -> None:
    plain = Plaintext()
    plain.take(chunk(1, 0))
    plain.carry(b"a", 1)
    plain.skip(2)
    plain.take(Gap(2, 2, "t.pcap", 3, 5, True))
    plain.lose(5)
    plain.take(chunk(3, 8))
    plain.skip(1)
    plain.carry(b"b", 1)
    found = plain.finish()
    assert [each for each in found if isinstance(each, Gap)] == [Gap(2, 2, "t.pcap", 1, 5, True)]
    assert [each.length for each in found if isinstance(each, Oddity)] == [2, 1]
    assert plain.counts.missing == 5
