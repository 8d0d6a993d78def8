"""S2: its stream identifier, whole or in pieces."""

from __future__ import annotations

import pytest

from dissect.nats.transport.layer import Heads
from dissect.nats.transport.s2 import LAYER

IDENTIFIER = b"\xff\x06\x00\x00S2sTwO"


@pytest.mark.parametrize("size", [1, 5, 10])
def test_a_stream_may_begin_in_pieces_where_a_frame_should(size: int) -> None:
    assert LAYER.replaces(IDENTIFIER[:size], 1)
    assert not LAYER.replaces(b"\xff\x06\x01", 1)


def test_in_the_middle_the_whole_identifier_proves_nats() -> None:
    assert LAYER.implies_nats
    assert LAYER.resumes(IDENTIFIER + b"\x01")
    assert not LAYER.resumes(IDENTIFIER[:5])


def test_no_connection_begins_with_it() -> None:
    assert LAYER.begins(Heads(IDENTIFIER, IDENTIFIER)) is None
