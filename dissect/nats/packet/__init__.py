"""Link, IP and TCP headers, fragments and tunnels: packets -> segments."""

from .tcp import JOINED, PacketParser, ParserState, flow_hash

__all__ = ["JOINED", "PacketParser", "ParserState", "flow_hash"]
