"""A client's requests and their replies, paired by reply subject.

Sound only where the subject of the reply is the reply subject as it was sent, which holds on the client's
own connection but for JetStream deliveries: those come under their stream's subject and stay unpaired.
"""

from __future__ import annotations

from natsync.protocol import HMsg, HPub, Msg, ProtocolError, Pub, parse_headers

# How many of the latest reply subjects may still get replies, and up to twice as many.
_OPEN = 4096
_NO_RESPONDERS = 503


class Requests:
    """Counts. A request answered 503 has no reply."""

    def __init__(self) -> None:
        self.sent = 0
        self.replies = 0
        self.no_responders = 0
        self._newer: set[bytes] = set()
        self._older: set[bytes] = set()

    def send(self, message: Pub | HPub) -> None:
        """The client asks."""
        self.sent += 1
        newer = self._newer
        newer.add(message.reply)
        if len(newer) > _OPEN:
            self._older = newer
            self._newer = set()

    def receive(self, message: Msg | HMsg) -> None:
        """The client gets a message; perhaps it is a reply."""
        if message.subject not in self._newer and message.subject not in self._older:
            return
        if (
            isinstance(message, HMsg)
            and not message.payload_bytes
            and _status(message) == _NO_RESPONDERS
        ):
            self.no_responders += 1
        else:
            self.replies += 1


def _status(message: HMsg) -> int:
    try:
        return parse_headers(message.headers).status
    except ProtocolError:
        return 0
