"""Link, IP and TCP headers, fragments and tunnels: packets -> segments."""

from .tcp import Layers, flow_hash

__all__ = ["Layers", "flow_hash"]
