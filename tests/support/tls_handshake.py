"""TLS conversations in memory: what both sides of the standard library's `ssl` would send, for captures.

    sent = handshake(client_context, server_context, [(CLIENT, b"PING\\r\\n")])

Nothing is on a network: `ssl` reads and writes buffers.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence

CLIENT, SERVER = 0, 1
Sent = list[tuple[int, bytes]]
"""Who sent which bytes, in order."""


class _Side:
    def __init__(self, context: ssl.SSLContext, is_server: bool) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        name = None if is_server else "localhost"
        self.tls = context.wrap_bio(
            self.incoming, self.outgoing, server_side=is_server, server_hostname=name
        )
        self.shaken = False

    def shake(self) -> None:
        """Goes on with the handshake as far as the bytes that came allow; a refusal leaves its alert."""
        try:
            self.tls.do_handshake()
            self.shaken = True
        except ssl.SSLWantReadError:
            pass


def handshake(
    client: ssl.SSLContext, server: ssl.SSLContext, messages: Sequence[tuple[int, bytes]] = ()
) -> Sent:
    """The bytes of a handshake and of `messages`. A refused handshake ends with the alert of a side."""
    sides = _Side(client, False), _Side(server, True)
    sent: Sent = []

    def carry(sender: int) -> None:
        data = sides[sender].outgoing.read()
        if data:
            sent.append((sender, data))
            sides[1 - sender].incoming.write(data)

    refused = False
    while not refused and not all(side.shaken for side in sides):
        for number, side in enumerate(sides):
            try:
                if not side.shaken:
                    side.shake()
                else:
                    side.tls.read(1)  # an alert of the other side, after its own end
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                refused = True
            carry(number)
    for sender, data in () if refused else messages:
        sides[sender].tls.write(data)
        carry(sender)
    return sent
