"""The frames of one session -> items for the stages of `paths`."""

from __future__ import annotations

from collections.abc import Iterable

from ...schema.declaration import LayerFrame, LayerItem
from ...schema.records import FrameRecord
from ..jetstream.publishes import read_ack
from ..json_bodies import number, text
from ..messages import GREETINGS, MESSAGES
from .facts import SessionFacts
from .hops import hop_of
from .items import ASKS, CONTENTS, PLACES, ack_item, hop_item, key_of

_INTERNAL = ("$SYS.", "$NRG.", "$JSC.", "$JS.", "$LDS.")


def is_followed(frame: FrameRecord) -> bool:
    """Whether the frame carries a message of a client."""
    return frame.op in MESSAGES and not (frame.subject or "").startswith(_INTERNAL)


class PathSession:
    """The state of one session. It makes items instead of rows."""

    def __init__(self) -> None:
        self._facts = SessionFacts()
        self._session = ""

    def add(self, frame: LayerFrame) -> Iterable[LayerItem]:
        """The items of a frame."""
        self._session = frame.session
        self._facts.look(frame)
        if is_followed(frame):
            return self._items(frame)
        if frame.op in GREETINGS and frame.json is not None:
            self._facts.meet(frame)
        return ()

    def finish(self) -> Iterable[LayerItem]:
        """The item with the facts about the session."""
        return (self._facts.item(self._session),) if self._session else ()

    @staticmethod
    def _items(frame: LayerFrame) -> list[LayerItem]:
        hop = hop_of(frame)
        if hop.is_publication:
            items = [hop_item(CONTENTS, hop.content, hop)]
            if hop.reply:
                items.append(hop_item(ASKS, key_of(hop.session, hop.reply), hop))
            return items
        if hop.place:
            return [hop_item(PLACES, key_of(*hop.place), hop)]
        items = [hop_item(CONTENTS, hop.content, hop)]
        # A PubAck shows where the publication with this reply subject is stored.
        ack = read_ack(frame.content)
        sequence = number(ack, "seq") if ack else None
        if ack and sequence and not ack.get("duplicate"):
            items.append(ack_item(hop, (text(ack, "stream"), sequence)))
        return items
