"""Which frames the layers above NATS read."""

from __future__ import annotations

from dissect.nats.application.messages import (
    EVERY_OP,
    GREETINGS,
    MESSAGES,
    MESSAGES_AND_INTEREST,
    is_message,
)
from dissect.nats.pipeline import records
from dissect.nats.schema.records import FrameRecord
from natsync import protocol
from natsync.protocol import Frame

from tests.support.paths import CAPTURES


def test_messages_and_what_says_where_they_go() -> None:
    found: dict[str, bool] = {}
    for row in records([str(CAPTURES)], ["frames"]):
        assert isinstance(row, FrameRecord)
        found[row.op] = is_message(row)
    messages = {op for op, is_one in found.items() if is_one}
    assert messages == MESSAGES == {"PUB", "HPUB", "MSG", "HMSG", "RMSG", "LMSG"}
    assert MESSAGES_AND_INTEREST == messages | {"SUB", "UNSUB"}
    assert GREETINGS | {"PING", "RS+", "LS+"} < found.keys() <= EVERY_OP


def test_every_operation_is_one_of_the_protocol() -> None:
    made = [each for each in vars(protocol).values() if isinstance(each, type)]
    assert EVERY_OP == {each.op for each in made if issubclass(each, Frame) and each.op}
