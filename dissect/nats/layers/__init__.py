"""Link, IP and TCP headers: packet -> segment."""

from .tcp import Layers

__all__ = ["Layers"]
