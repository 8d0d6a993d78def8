"""Link, IP and TCP headers, fragments and tunnels: packets -> segments."""

from .tcp import PacketParser, flow_hash

__all__ = ["PacketParser", "flow_hash"]
