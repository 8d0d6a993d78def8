"""Infers the kind of a connection from its frames, if no handshake was captured.

Evidence grows with each chain of frames that a resynchronizer proves, and with operations that are read
later. It is never certain: a line that does not fit corrects it.
"""

from __future__ import annotations

from collections.abc import Iterable

from natsync.protocol import Context, Kind, Role, ServerInfo, kind_of_info

from .contexts import UNSPECIFIC, agreed
from .resync.chain import Chain

_INTEREST = {"RS+", "RS-", "A+", "A-"}
_TRAFFIC = {"RMSG", "HMSG"}
_LEAFNODE = {"LS+", "LS-", "LMSG"}
# Shared, because an empty set takes 216 bytes, and there may be thousands of connections.
_NO_OPERATIONS: frozenset[str] = frozenset()
_GOSSIP = "nats-route://"


class Evidence:
    """Evidence of one direction: the contexts that fit its lines, and their operations."""

    def __init__(self) -> None:
        self.contexts: tuple[Context, ...] = ()
        self.ops = _NO_OPERATIONS
        self.dotted = False
        self._newest: tuple[Context, ...] = ()  # the contexts of the latest chain

    def add(self, chain: Chain) -> None:
        """Adds a chain of proven frames."""
        kept = tuple(context for context in chain.contexts if context in self.contexts)
        self.contexts = kept or chain.contexts
        self._newest = chain.contexts
        self.ops |= chain.ops
        self.dotted = self.dotted or chain.dotted

    def observe(self, ops: Iterable[str]) -> bool:
        """Adds operations; returns whether one of them is new."""
        before = len(self.ops)
        self.ops = self.ops.union(ops)
        return len(self.ops) > before

    @property
    def is_conclusive(self) -> bool:
        """Whether the evidence determines the kind."""
        return bool(self.ops - UNSPECIFIC - {"INFO"})

    def likeliest(self, sender: Role, other: Evidence) -> Context:
        """The likeliest context of this side as `sender`. The evidence of this side counts first, then that
        of the other side.

        An account name with a dot in it is more likely the subject on a route without account names. If only
        HMSG was seen, which all kinds have, a leafnode is not assumed: the context of a leafnode also parses
        the lines of a route, so the mistake would not be noticed. The opposite mistake would be.
        """
        own = tuple(context for context in self.contexts if context.sender is sender)
        own = own or tuple(context for context in self._newest if context.sender is sender)
        own = own or self._newest
        if not (self.ops | other.ops) & _LEAFNODE:
            own = tuple(sorted(own, key=lambda context: context.kind is Kind.LEAFNODE))
        found = agreed(own, other.contexts)
        if self.dotted and found.kind is Kind.ROUTE:
            found = next((context for context in own if context.dedicated), found)
        return found


def sends_messages(one: Evidence, other: Evidence) -> Evidence | None:
    """The side that sends the messages, if the connection looks like a gateway: messages flow in one
    direction, and interest in the other. A route may look like a gateway for a short time, until the first
    frame that does not fit."""
    for sender, receiver in ((one, other), (other, one)):
        if (
            sender.ops & _TRAFFIC
            and receiver.ops & _INTEREST
            and not sender.ops & _INTEREST
            and not receiver.ops & _TRAFFIC
            and not (sender.ops | receiver.ops) & _LEAFNODE
        ):
            return sender
    return None


def kind_of_news(info: ServerInfo) -> Kind | None:
    """The kind of connection that an INFO shows, even if it is not its sender's first. Routes carry updates
    about other servers and gateways (server/route.go, gateway.go: processGatewayInfo)."""
    if info.gateway_cmd:
        is_gossip = info.gateway_cmd == 1 and info.server_id.startswith("GW")
        return Kind.ROUTE if is_gossip else Kind.GATEWAY
    return Kind.ROUTE if info.ip.startswith(_GOSSIP) else kind_of_info(info)
