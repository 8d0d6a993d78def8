"""Parses what is rare after an Ethernet header in captures of servers with dpkt: LLC.

dpkt is about 20 times slower than our own code for the common links, and importing it loads all its
protocols. So it is imported only when the first such packet comes.
"""

from __future__ import annotations

import struct

from ..errors import imported

NOT_IP = "not ip"

# The exceptions other than its own that dpkt 1.9.8 raises for hostile bytes, found by fuzzing.
_SLIPS = (AttributeError, LookupError, RecursionError, TypeError, ValueError, struct.error)


def find_ip_with_dpkt(data: bytes) -> int | str:
    """The offset of the IP header in an Ethernet frame, or the reason why there is none."""
    dpkt = imported("dpkt", "dissect")
    try:
        layer = dpkt.ethernet.Ethernet(data)
    except (dpkt.Error, *_SLIPS):
        return NOT_IP
    while isinstance(layer, dpkt.Packet):
        if isinstance(layer, (dpkt.ip.IP, dpkt.ip6.IP6)):
            # dpkt packs the fixed header as it read it, and the packet has these bytes at no earlier offset.
            return data.find(layer.pack_hdr())
        layer = layer.data
    return NOT_IP
