"""Finding the start of a frame: what is proof, what is a look-alike, and that it takes linear time."""

from __future__ import annotations

from time import process_time

from dissect.nats.framing.contexts import ALL
from dissect.nats.framing.resync.resynchronizer import Quota, Resynchronizer
from dissect.nats.types import Chunk, Gap
from natsync.protocol import Context, Kind, Role

PUB = b"PUB a 5\r\nhello\r\n"
CLIENT = (Context(Role.CLIENT, Kind.CLIENT),)


class Fed:
    """A resynchronizer that is fed packets until it has found something."""

    def __init__(self, contexts: tuple[Context, ...] = CLIENT, is_nats: bool = True) -> None:
        self.resync = Resynchronizer(Quota(), contexts, is_nats)
        self.end = 0

    def __call__(self, *packets: bytes | int) -> int | None:
        """Where a frame begins, if that is proven now; a number is a gap of that size."""
        for packet in packets:
            if isinstance(packet, int):
                proven = self.resync.push(Gap(1, 1, "t.pcap", self.end, packet, True))
                self.end += packet
            else:
                proven = self.resync.push(Chunk(1, 1, "t.pcap", self.end, packet))
                self.end += len(packet)
            if proven:
                assert self.resync.chain
                return self.resync.chain.start
        return None


def test_two_frames_that_fill_packets_are_proof() -> None:
    assert Fed()(PUB + PUB) == 0
    assert Fed()(PUB, PUB) == 0


def test_one_frame_alone_is_no_proof() -> None:
    assert Fed()(PUB) is None


def test_frames_after_the_rest_of_a_payload() -> None:
    assert Fed()(b"rest of a payload\r\n" + PUB * 3) is None
    assert Fed()(b"rest of a payload\r\n" + PUB * 3, PUB) == 19


def test_a_short_packet_shows_that_the_sender_flushed() -> None:
    assert Fed()(b"x" * 100, b"rest\r\n" + PUB * 3) == 106


def test_three_frames_are_enough_at_the_end() -> None:
    fed = Fed()
    assert fed(b"rest\r\n" + PUB * 3 + b"PU") is None
    assert fed.resync.finish()


def test_look_alikes_in_a_payload_are_refuted_when_it_goes_on() -> None:
    inside = b"log: \r\n" + PUB * 20 + b"that was the log"
    packet = inside + b"\r\n" + PUB * 3
    assert Fed()(packet, PUB) == len(inside) + 2


def test_a_look_alike_in_the_payload_of_a_real_frame_does_not_overtake_it() -> None:
    payload = b"\r\n" + PUB * 50
    frame = b"PUB log %d\r\n%s\r\n" % (len(payload), payload)
    packets = [frame[at : at + 100] for at in range(0, len(frame), 100)]
    assert Fed()(*packets, PUB) == 0


def test_frames_of_the_other_sender_are_no_proof() -> None:
    assert Fed()(b"MSG a 1 5\r\nhello\r\n" * 5) is None


def test_a_body_may_reach_across_a_gap() -> None:
    assert Fed()(b"PUB a 50\r\nhello", 47, b"PUB a 30\r\nhello", 27) == 0


def test_a_snap_length_leaves_one_frame_a_packet() -> None:
    assert Fed()(b"PUB a 50\r\nhello", 99) == 0


def test_before_a_gap_one_frame_in_the_middle_of_a_packet_is_not_enough() -> None:
    assert Fed()(b"rest\r\nPUB a 50\r\nhello", 99) is None


def test_the_operation_that_a_gap_cuts_is_the_third_in_a_row() -> None:
    assert Fed()(b"rest\r\n" + PUB * 2 + b"PUB a 5", 99) == 6
    assert Fed()(b"rest\r\n" + PUB * 2 + b"PUB", 99) is None
    assert Fed()(b"rest\r\n" + PUB + b"PUB a 5", 99) is None
    assert Fed()(b"rest\r\n" + PUB * 2 + b"MSG a 5", 99) is None
    assert Fed()(b"rest\r\n" + PUB * 3 + b"MSG a 5", 99) is None


def test_the_rest_of_a_longer_operation_after_a_gap_is_no_frame() -> None:
    header = b"NATS/1.0\r\nA: b\r\n\r\n"
    body = b"%d %d\r\n%shello\r\n" % (len(header), len(header) + 5, header)
    server = (Context(Role.SERVER, Kind.CLIENT),)
    message = b"MSG a 1 %s" % body
    assert Fed()(b"H", 3, b"PUB a %s" % body + PUB * 2, PUB) == len(b"H...PUB a %s" % body)
    assert Fed(server)(b"H", 3, message + b"PING\r\n" * 2, b"PING\r\n") == 4 + len(message)
    assert Fed()(b"UN", 3, b"SUB 5 10\r\n" + PUB * 2, PUB) == len(b"UN...SUB 5 10\r\n")
    assert Fed(server)(b"\r\n" + message, message) == 2


def test_two_frames_and_a_cut_line_are_no_proof_at_the_end() -> None:
    fed = Fed()
    assert fed(b"rest\r\n" + PUB * 2 + b"PUB a 5") is None
    assert not fed.resync.finish()


def test_operations_of_other_protocols_are_no_proof_of_nats() -> None:
    assert Fed(ALL, is_nats=False)(b"PING\r\n", b"PING\r\n", b"PING\r\n") is None
    assert Fed(ALL, is_nats=False)(b"PING\r\n", b"PUB a 0\r\n\r\n") == 0


def test_held_bytes_are_bounded() -> None:
    fed = Fed()
    assert fed(b"PUB a 60000000\r\n", *[b"x" * 60000] * 30) is None
    assert fed.resync.buffer.held_bytes < 1 << 20
    assert fed.resync.buffer.skipped > 500_000


def test_time_is_linear_in_hostile_bytes() -> None:
    def seconds(size: int) -> float:
        data = (b"\r\nPUB a 100000\r\nPUB b 90000\r\nPUB c 5\r\n" + b"z" * 60) * (size // 100)
        fed = Fed()
        start = process_time()
        fed(*(data[at : at + 1448] for at in range(0, len(data), 1448)))
        return process_time() - start

    seconds(500_000)
    small = min(seconds(500_000) for _ in range(2))
    assert seconds(2_000_000) < 4 * small * 2


def test_frames_that_fill_packets_are_kept_when_the_next_one_is_refuted() -> None:
    fed = Fed()
    assert fed(30, PUB) is None
    assert fed(b"PUB a 5\r\nwrong, and no more\r\n") == 30
    assert Fed(is_nats=False)(30, PUB, b"PUB a 5\r\nwrong, and no more\r\n") is None
    assert Fed()(30, PUB + b"PUB a 5\r\nwrong, and no more\r\n") is None
