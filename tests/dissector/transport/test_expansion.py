"""How much compressed bytes may become."""

from dissect.nats.transport.expansion import Expansion


def test_the_first_megabytes_are_free_and_the_rest_is_in_proportion() -> None:
    expansion = Expansion()
    assert expansion.add(1, 64 << 20)
    assert not expansion.add(1, 1 << 20)
    assert expansion.plain_bytes == 65 << 20
    assert Expansion().add(1 << 20, 300 << 20)
    assert not Expansion().add(1 << 20, 400 << 20)
