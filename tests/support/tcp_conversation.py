"""A TCP conversation that is being written: sequence and acknowledgement numbers for whatever is made of it.

Each subclass of `TcpConversation` makes something else of a packet: a record of a capture file, a segment
without headers, or a packet of a generated capture.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16

Endpoint = TypeVar("Endpoint")
Self = TypeVar("Self", bound="TcpConversation")  # type: ignore[type-arg]  # of any endpoint


class TcpConversation(ABC, Generic[Endpoint]):
    """Two endpoints, of which `client` opens the connection; `next` is the sequence number of each.

    Every packet acknowledges all that the other endpoint sent before.
    """

    def __init__(self, client: Endpoint, server: Endpoint, isn: tuple[int, int]) -> None:
        self.client, self.server = client, server
        self.next = {client: isn[0], server: isn[1]}

    @abstractmethod
    def emit(self, sender: Endpoint, flags: int, seq: int, ack: int, payload: bytes) -> None:
        """Takes a packet of `sender`."""

    def other(self, sender: Endpoint) -> Endpoint:
        """The endpoint that receives what `sender` sends."""
        return self.server if sender == self.client else self.client

    def packet(self, sender: Endpoint, flags: int, payload: bytes = b"") -> None:
        """One packet of `sender`."""
        seq, ack = self.next[sender], self.next[self.other(sender)] if flags & ACK else 0
        self.next[sender] = seq + len(payload) + (1 if flags & (SYN | FIN) else 0) & 0xFFFFFFFF
        self.emit(sender, flags, seq, ack, payload)

    def handshake(self: Self) -> Self:
        """SYN, SYN and ACK, ACK."""
        self.packet(self.client, SYN)
        self.packet(self.server, SYN | ACK)
        self.packet(self.client, ACK)
        return self

    def close(self: Self) -> Self:
        """FIN from the client, FIN from the server, and the last acknowledgement."""
        self.packet(self.client, FIN | ACK)
        self.packet(self.server, FIN | ACK)
        self.packet(self.client, ACK)
        return self
