"""The options of a dissection: declared once for the command line, Python, Spark and the manual, and one
value for all stages."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from natsync.protocol import Kind

from .capture.decompress import ALWAYS_EXPANDED, LARGEST_RATIO
from .capture.time_range import TimeBound, check_bounds
from .option_types import (
    Opt,
    OptionGroup,
    byte_size,
    declared,
    flag,
    one_of,
    ports,
    seconds,
    several,
    texts,
    time,
    unknown,
    whole,
)
from .schema.payload import Payload
from .secrets.key_log import open_key_logs
from .tcp.limits import FlowLimits, Limits

__all__ = ["Options", "Payload", "changed_options"]

_STREAMS, _FLOWS = Limits(), FlowLimits()
_GAP_SECONDS, _IDLE_SECONDS = _STREAMS.patience_ns / 1e9, _FLOWS.idle_ns / 1e9
_LEAST_BYTES = 1024  # that wait


@dataclass(frozen=True, slots=True, init=False)
class Options:
    """How to dissect.

    `port` maps ports to the kind of their connections. `kind` limits rows to those made while the connection
    was known to be of one of these kinds. Only packets from `from_time` on and before `until_time` are read,
    as if the captures had no others. `keylog` are paths of files.

    A value may have its text form, as on the command line: `payload="text"`, `kind="route"`,
    `from_time="2026-11-21T02:01"` or, in seconds after the first packet, `"1.5"`, `max_expanded="8G"`,
    `idle_seconds="5m"`. Raises ValueError for a value that cannot be read so, and TypeError for a value of
    another type.
    """

    port: Annotated[
        Mapping[int, Kind],
        "Set the kind of the connections on a port, if it cannot be detected. Repeatable.",
        Opt(OptionGroup.DISSECTION, ports()),
    ]
    payload: Annotated[
        Payload, "How to show payloads.", Opt(OptionGroup.OUTPUT, one_of(Payload), common=True)
    ]
    redact: Annotated[
        bool,
        "Show passwords, tokens and signatures.",
        Opt(OptionGroup.DISSECTION, flag(), flags=("--no-redact",)),
    ]
    from_time: Annotated[
        TimeBound | None,
        "Only packets from TIME on: 2026-11-21T02:01:43Z, a part of it, or seconds after the first packet.",
        Opt(OptionGroup.SELECTION, time(), flags=("--from",), common=True),
    ]
    until_time: Annotated[
        TimeBound | None,
        "Only packets before TIME.",
        Opt(OptionGroup.SELECTION, time(), flags=("--until",), common=True),
    ]
    kind: Annotated[
        frozenset[Kind] | None,
        "Only connections of this kind: client, route, gateway or leafnode. Repeatable.",
        Opt(OptionGroup.SELECTION, several(one_of(Kind), "KIND", frozenset)),
    ]
    separate: Annotated[
        bool,
        "Treat each capture as its own timeline: connections do not continue in the next file.",
        Opt(OptionGroup.SELECTION, flag()),
    ]
    keylog: Annotated[
        tuple[str, ...],
        "Decrypt TLS with the secrets in FILE (NSS key log format, as of SSLKEYLOGFILE). Repeatable."
        " Secrets in a pcapng file are always used.",
        Opt(OptionGroup.DISSECTION, texts("FILE", "a path or several")),
    ]
    gap_seconds: Annotated[
        float,
        "Seconds (1.5) or a time (500ms) to wait for bytes that were acknowledged but not captured.",
        Opt(OptionGroup.LIMITS, seconds()),
    ]
    max_stream_bytes: Annotated[
        int,
        "Bytes that may wait after a gap, in one direction of a connection.",
        Opt(OptionGroup.LIMITS, byte_size(_LEAST_BYTES)),
    ]
    max_held_bytes: Annotated[
        int,
        "Bytes that may wait after gaps, in all connections together.",
        Opt(OptionGroup.LIMITS, byte_size(_LEAST_BYTES)),
    ]
    max_flows: Annotated[int, "TCP connections at a time.", Opt(OptionGroup.LIMITS, whole(1))]
    idle_seconds: Annotated[
        float,
        "Seconds (300) or a time (5m) of silence after which a connection counts as closed.",
        Opt(OptionGroup.LIMITS, seconds(positive=True)),
    ]
    max_expanded: Annotated[
        int | None,
        "How many bytes of a decompressed capture to read, such as 8G.",
        Opt(
            OptionGroup.LIMITS,
            byte_size(),
            default=f"{LARGEST_RATIO} times its size, at least {ALWAYS_EXPANDED >> 20} MiB",
        ),
    ]

    def __init__(
        self,
        port: Mapping[int, Kind | str] | Collection[str] | str | None = None,
        payload: Payload | str = Payload.NONE,
        redact: bool | str = True,
        *,
        from_time: TimeBound | str | None = None,
        until_time: TimeBound | str | None = None,
        kind: Collection[Kind | str] | Kind | str | None = None,
        separate: bool | str = False,
        keylog: Collection[str | os.PathLike[str]] | str | os.PathLike[str] = (),
        gap_seconds: float | str = _GAP_SECONDS,
        max_stream_bytes: int | str = _STREAMS.held_bytes,
        max_held_bytes: int | str = _FLOWS.held_bytes,
        max_flows: int | str = _FLOWS.max_flows,
        idle_seconds: float | str = _IDLE_SECONDS,
        max_expanded: int | str | None = None,
    ) -> None:
        given: dict[str, object] = locals()
        for name, opt in declared(Options).items():
            object.__setattr__(self, name, opt.read(name, given[name]))
        object.__setattr__(self, "port", self.port or {})
        object.__setattr__(self, "keylog", open_key_logs(self.keylog))
        check_bounds(self.from_time, self.until_time)

    @property
    def stream_limits(self) -> Limits:
        """The limits of each direction of a connection."""
        return Limits(self.max_stream_bytes, patience_ns=round(self.gap_seconds * 1e9))

    @property
    def flow_limits(self) -> FlowLimits:
        """The limits of all connections."""
        return FlowLimits(
            max_flows=self.max_flows,
            idle_ns=round(self.idle_seconds * 1e9),
            held_bytes=self.max_held_bytes,
        )

    def share(self, processes: int) -> Options:
        """The options for one of several processes, with its share of the limits."""
        return replace(
            self,
            max_flows=max(1, self.max_flows // processes),
            max_held_bytes=max(_LEAST_BYTES, self.max_held_bytes // processes),
        )


_INSTEAD = {
    "chunk_size": "one process reads all packets; dissect.nats.spark.read cuts captures",
    "columns": "choose columns of the Arrow table: .to_arrow().select([COLUMN])",
    "format": "rows are objects; .to_arrow() and .to_pandas() make tables of them",
    "jobs": "one process makes the rows; nats-dissect --jobs and dissect.nats.spark.read use several",
    "limit": "stop when you have enough, as with itertools.islice",
    "output": "rows are objects; write those that you get",
    "progress": "ask the `report` while rows are read",
    "sort": "rows come in order of time; sort them with sorted(ROWS, key=...)",
    "where": "choose rows with `if`, or columns with pyarrow or pandas",
}


def changed_options(place: str, options: object, changes: Mapping[str, object]) -> Options:
    """Options with these changes, which a Python function got by name. Raises TypeError for other options,
    and TypeError or ValueError for a wrong value."""
    if not isinstance(options, Options):
        raise TypeError(f"options must be Options, not {type(options).__name__}")
    taken = declared(Options)
    for name in changes.keys() - taken.keys():
        raise TypeError("; ".join(unknown(place, name, taken, _INSTEAD)))
    return replace(options, **changes) if changes else options  # type: ignore[arg-type]  # checked there
