"""How much compressed bytes may become."""

from dissect.nats.transport.expansion import Expansion


def test_the_first_megabytes_are_free_and_the_rest_is_in_proportion() -> None:
    expansion = Expansion()
    assert expansion.add(1, bytes(64 << 20))
    assert not expansion.add(1, bytes(1 << 20))
    assert Expansion().add(1 << 20, bytes(300 << 20))
    assert not Expansion().add(1 << 20, bytes(400 << 20))


def test_lines_count_too_because_each_may_be_a_frame() -> None:
    expansion = Expansion()
    assert expansion.add(1000, b"PING\r\n" * 60_000)
    assert not expansion.add(1000, b"PING\r\n" * 40_000)
    assert Expansion().add(100_000, b"PING\r\n" * 1_600_000)
    assert not Expansion().add(100_000, b"PING\r\n" * 2_000_000)


def test_equal_messages_in_the_blocks_of_a_server_are_not_too_much() -> None:
    message = b"MSG bench 1 128\r\n" + bytes(128) + b"\r\n"
    block = message * (65536 // len(message))
    expansion = Expansion()
    assert all(expansion.add(110, block) for _ in range(900))
