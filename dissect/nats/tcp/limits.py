"""The limits of flows and streams: how long they wait, and how many bytes may wait."""

from __future__ import annotations

from dataclasses import dataclass, fields


def _check(limits: Limits | FlowLimits, least: dict[str, int]) -> None:
    """Raises TypeError for a limit that is no int, and ValueError for one below its `least` value (0)."""
    for each in fields(limits):
        value, lowest = getattr(limits, each.name), least.get(each.name, 0)
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{each.name} must be an int, not {value!r}")
        if value < lowest:
            raise ValueError(f"{each.name} must be {lowest} or more, not {value}")


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a stream waits for missing bytes, and how many bytes may wait after them. `held_bytes` is
    larger than the largest TCP windows in use.

    A gap whose bytes were acknowledged waits for `patience_packets` more packets of the flow, or for
    `patience_ns`. If the start of the stream is unknown, the first bytes wait until there are
    `start_segments` segments, or for `patience_ns`.
    """

    held_bytes: int = 16 << 20
    held_segments: int = 8192
    patience_packets: int = 16
    patience_ns: int = 1_000_000_000
    start_segments: int = 16

    def __post_init__(self) -> None:
        _check(self, {})


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """When flows end, and how many bytes may wait in all flows together (`held_bytes`). `idle_ns` is a day:
    NATS peers ping each other every few minutes. `linger_ns` is a minute, like TIME_WAIT in Linux.
    """

    max_flows: int = 16384
    idle_ns: int = 24 * 3600 * 10**9
    linger_ns: int = 60 * 10**9
    held_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        _check(self, {"max_flows": 1})
