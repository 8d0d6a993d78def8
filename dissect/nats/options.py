"""How to dissect: what the user decides, handed down to the stages as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from natsync.protocol import Kind

from .tcp.flow import FlowLimits
from .tcp.reassembly import Limits


class Payload(Enum):
    """Which form of its payload the row of a frame shows."""

    NONE = "none"
    SHA256 = "sha256"
    TEXT = "text"
    BASE64 = "base64"


@dataclass(frozen=True, slots=True)
class Options:
    """`hints` maps a port to the kind of connection it surely carries; `payload` says what rows of frames
    show of payloads; `redact` masks secrets. With `kinds` there are only rows that were made while a
    connection was known to be of one of them. The limits bound memory, for streams and for flows;
    `max_expanded` bounds the contents of each compressed capture, in bytes, where the default (see
    `capture.decompress`) does not fit.
    """

    hints: Mapping[int, Kind] = field(default_factory=dict)
    payload: Payload = Payload.NONE
    redact: bool = True
    stream_limits: Limits = field(default_factory=Limits)
    flow_limits: FlowLimits = field(default_factory=FlowLimits)
    kinds: frozenset[Kind] | None = None
    max_expanded: int | None = None

    def share(self, processes: int) -> Options:
        """The same for one of several processes: what limits a capture as a whole is divided."""
        whole = self.flow_limits
        limits = replace(
            whole,
            max_flows=max(1, whole.max_flows // processes),
            held_bytes=whole.held_bytes // processes,
        )
        return replace(self, flow_limits=limits)
