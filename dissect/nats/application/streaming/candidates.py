"""Messages that may be deliveries of NATS Streaming: the latest to each inbox, until the next proves it."""

from __future__ import annotations

from collections import OrderedDict

from natsync.protocol.streaming import MsgProto

from ..held_payloads import HeldPayloads
from .records import StreamingRecord

_INBOXES = 1024


class Candidates:
    """The latest message to each inbox, with its row. If there are too many, the oldest are forgotten."""

    def __init__(self) -> None:
        self._latest: OrderedDict[str, tuple[StreamingRecord, MsgProto]] = OrderedDict()
        self._held = HeldPayloads()

    def __len__(self) -> int:
        return len(self._latest)

    def put(
        self, inbox: str, row: StreamingRecord, message: MsgProto
    ) -> tuple[StreamingRecord, MsgProto] | None:
        """Keeps a message without its data; returns the previous message to the inbox."""
        message.data = b""
        latest, held = self._latest, self._held
        before = latest.pop(inbox, None)
        if before:
            held.remove(before[0].payload)
        while len(latest) >= _INBOXES or (latest and held.are_too_many_with(row.payload)):
            _, (oldest, _) = latest.popitem(last=False)
            held.remove(oldest.payload)
        latest[inbox] = row, message
        held.add(row.payload)
        return before
