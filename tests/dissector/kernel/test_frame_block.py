"""What one side of a connection sends is told apart by all of its columns."""

from __future__ import annotations

from dissect.nats.kernel.frame_block import FrameBlock, Sender
from dissect.nats.schema.records import Record


def test_senders_with_the_same_columns_are_one() -> None:
    one = Sender("0" * 16, "originator", "client", "")
    assert {one, Sender("0" * 16, "originator", "client", "")} == {one}
    assert one != one._replace(account="A")


def test_a_block_is_released_as_records_are() -> None:
    assert issubclass(FrameBlock, Record)
