"""The options of a dissection, as one value for all stages."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from natsync.protocol import Kind

from .capture.time_range import TimeBound, check_bounds, time_bound
from .schema.payload import Payload
from .secrets.key_log import open_key_logs
from .tcp.limits import FlowLimits, Limits

__all__ = ["Options", "Payload", "check_options"]


@dataclass(frozen=True, slots=True, init=False)
class Options:
    """How to dissect.

    `hints` maps a port to the kind of its connections, for those whose bytes do not show it. `payload`
    selects how a row about one message shows its payload; `redact` masks secrets. `kinds` limits rows to
    those made while the connection was known to be of one of these kinds. Only packets from `from_time` on
    and before `until_time` are read, as if the captures had no others. With `separate`, each capture file
    is its own timeline. `stream_limits` and `flow_limits` bound memory. `max_expanded` limits the bytes that
    each compressed capture may expand to, in place of the default in `capture.decompress`. `key_logs` are
    paths of files in NSS key log format, with the secrets of TLS connections.

    Payloads, kinds and times may be strings, as on the command line: `payload="text"`, `kinds="route"`,
    `from_time="2026-11-21T02:01"` or, in seconds after the first packet, `"1.5"`. Raises ValueError for
    a value that cannot be read so, and TypeError for a value of another type.
    """

    hints: Mapping[int, Kind]
    payload: Payload
    redact: bool
    stream_limits: Limits
    flow_limits: FlowLimits
    kinds: frozenset[Kind] | None
    from_time: TimeBound | None
    until_time: TimeBound | None
    separate: bool
    max_expanded: int | None
    key_logs: tuple[str, ...]

    def __init__(
        self,
        hints: Mapping[int, Kind | str] | None = None,
        payload: Payload | str = Payload.NONE,
        redact: bool = True,
        stream_limits: Limits | None = None,
        flow_limits: FlowLimits | None = None,
        kinds: Collection[Kind | str] | Kind | str | None = None,
        from_time: TimeBound | str | None = None,
        until_time: TimeBound | str | None = None,
        separate: bool = False,
        max_expanded: int | None = None,
        key_logs: Collection[str | os.PathLike[str]] | str | os.PathLike[str] = (),
    ) -> None:
        if isinstance(kinds, (str, Kind)):
            kinds = [kinds]
        if isinstance(key_logs, (str, os.PathLike)):
            key_logs = [key_logs]
        _check_type("hints", hints, Mapping, "a dict of ports")
        _check_type("stream_limits", stream_limits, Limits, "Limits")
        _check_type("flow_limits", flow_limits, FlowLimits, "FlowLimits")
        _check_type("kinds", kinds, Collection, "a kind or several")
        _check_type("max_expanded", max_expanded, int, "a number of bytes")
        for name, flag in (("redact", redact), ("separate", separate)):
            if not isinstance(flag, bool):  # None would mean False, and show secrets
                raise TypeError(f"{name} must be True or False, not {flag!r}")
        if max_expanded is not None and max_expanded < 0:
            raise ValueError(f"max_expanded must be 0 bytes or more, not {max_expanded}")
        _check_type("key_logs", key_logs, Collection, "a path or several")
        begin, end = _bound("from_time", from_time), _bound("until_time", until_time)
        check_bounds(begin, end)
        values = {
            "hints": {_port(port): _kind(kind) for port, kind in (hints or {}).items()},
            "payload": Payload(payload),
            "redact": redact,
            "stream_limits": stream_limits or Limits(),
            "flow_limits": flow_limits or FlowLimits(),
            "kinds": None if kinds is None else frozenset(map(_kind, kinds)),
            "from_time": begin,
            "until_time": end,
            "separate": separate,
            "max_expanded": max_expanded,
            "key_logs": open_key_logs([os.fspath(path) for path in key_logs]),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def share(self, processes: int) -> Options:
        """The options for one of several processes, with its share of the limits."""
        whole = self.flow_limits
        limits = replace(
            whole,
            max_flows=max(1, whole.max_flows // processes),
            held_bytes=whole.held_bytes // processes,
        )
        return replace(self, flow_limits=limits)


def check_options(options: object) -> None:
    """Raises TypeError unless these are options of a dissection."""
    if not isinstance(options, Options):
        raise TypeError(f"options must be Options, not {type(options).__name__}")


def _check_type(name: str, value: object, kind: type, expected: str) -> None:
    """Raises TypeError for a value of another type than `kind`; None is an option that is not given."""
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise TypeError(f"{name} must be {expected}, not {value!r}")


def _port(port: object) -> int:
    if not isinstance(port, int):
        raise TypeError(f"a port in hints must be an int, not {port!r}")
    if not 0 < port < 1 << 16:
        raise ValueError(f"a port in hints must be from 1 to 65535, not {port}")
    return port


def _bound(name: str, time: TimeBound | str | None) -> TimeBound | None:
    """Reads the time of an option. Raises ValueError for an unreadable string, and TypeError for a number,
    which does not say what it counts from, or a `datetime`, which may not say its time zone."""
    if isinstance(time, str):
        return time_bound(time)
    if time is None or isinstance(time, TimeBound):
        return time
    raise TypeError(f"{name} must be a text such as '2026-11-21T02:01:43Z' or '1.5', not {time!r}")


def _kind(kind: Kind | str) -> Kind:
    try:
        return Kind(kind)
    except ValueError:
        names = ", ".join(each.value for each in Kind)
        raise ValueError(f"a kind is one of {names}, not {kind!r}") from None
