"""Infers the kind of a connection from its frames, where no handshake was captured.

Evidence grows with every chain of frames that a resynchronizer proves, and with the operations that are read
later. It is never sure: a line that does not fit corrects it.
"""

from __future__ import annotations

from collections.abc import Iterable

from natsync.protocol import Context, Kind, Role, ServerInfo, kind_of_info

from .contexts import UNSPECIFIC, agreed
from .resync import Chain

_INTEREST = {"RS+", "RS-", "A+", "A-"}
_TRAFFIC = {"RMSG", "HMSG"}
_LEAFNODE = {"LS+", "LS-", "LMSG"}
_GOSSIP = "nats-route://"


class Evidence:
    """Evidence of one direction: the ways in which its lines may be read, and their operations."""

    def __init__(self) -> None:
        self.contexts: tuple[Context, ...] = ()
        self.ops: set[str] = set()
        self.dotted = False
        self._newest: tuple[Context, ...] = ()  # the ways to read what was found last

    def add(self, chain: Chain) -> None:
        """Takes a chain of frames that was proven."""
        kept = tuple(context for context in chain.contexts if context in self.contexts)
        self.contexts = kept or chain.contexts
        self._newest = chain.contexts
        self.ops |= chain.ops
        self.dotted = self.dotted or chain.dotted

    def observe(self, ops: Iterable[str]) -> bool:
        """Takes operations that were read; whether one is new."""
        before = len(self.ops)
        self.ops.update(ops)
        return len(self.ops) > before

    @property
    def tells(self) -> bool:
        """Whether the kind can be seen from it."""
        return bool(self.ops - UNSPECIFIC - {"INFO"})

    def likeliest(self, sender: Role, other: Evidence) -> Context:
        """How to read this side, written by `sender`, by the evidence of both; its own comes first.

        An account with a dot in it is rather the subject of a route that names no account. Where only
        HMSG was seen, which all kinds have, it is no leafnode: that reads the lines of a route as well,
        but not the other way round, so that only the latter mistake comes to light.
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
    """Which of the two sends the messages of a gateway, if this is one: they go one way and interest
    only the other. No route is like that for long, and then the first frame that differs says so.
    """
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
    """The kind of connection that an INFO is from which need not be its sender's first. Routes carry
    news of other servers and gateways (server/route.go, gateway.go: processGatewayInfo).
    """
    if info.gateway_cmd:
        is_gossip = info.gateway_cmd == 1 and info.server_id.startswith("GW")
        return Kind.ROUTE if is_gossip else Kind.GATEWAY
    return Kind.ROUTE if info.ip.startswith(_GOSSIP) else kind_of_info(info)
