"""The limits of flows and streams: how long and how many bytes they wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how many bytes a stream waits. `held_bytes` covers the largest TCP windows in use.

    An acknowledged gap waits for `patience_packets` more of the flow, or `patience_ns`; an unknown start
    for `start_segments`, or the same time.
    """

    held_bytes: int = 16 << 20
    held_segments: int = 8192
    patience_packets: int = 16
    patience_ns: int = 1_000_000_000
    start_segments: int = 16


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """When flows end, and how many bytes may wait in all flows together: `held_bytes`. NATS peers ping
    each other every few minutes, so none is silent for a day. A minute is TIME_WAIT in Linux."""

    max_flows: int = 16384
    idle_ns: int = 24 * 3600 * 10**9
    linger_ns: int = 60 * 10**9
    held_bytes: int = 64 << 20
