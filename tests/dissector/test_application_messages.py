"""Which frames the layers above NATS read."""

from __future__ import annotations

from dissect.nats.application.messages import is_message, is_message_or_interest
from dissect.nats.pipeline import records
from dissect.nats.records import FrameRecord

from tests.support.paths import CAPTURES


def test_messages_and_what_says_where_they_go() -> None:
    found: dict[str, tuple[bool, bool]] = {}
    for row in records([str(CAPTURES)], ["frames"]):
        assert isinstance(row, FrameRecord)
        found[row.op] = is_message(row), is_message_or_interest(row)
    messages = {op for op, (is_one, _) in found.items() if is_one}
    assert messages == {"PUB", "HPUB", "MSG", "HMSG", "RMSG", "LMSG"}
    assert {op for op, (_, is_wanted) in found.items() if is_wanted} == messages | {"SUB", "UNSUB"}
    assert {"INFO", "CONNECT", "PING", "RS+", "LS+"} < found.keys()
