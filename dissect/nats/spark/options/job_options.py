"""The options of a job as one value, also made from the named arguments of `read` and `plan`."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from natsync.protocol import Kind

from ...errors import SparkError
from ...options import Options
from .settings import KINDS, PAYLOADS

CHUNK_BYTES = 128 << 20
SMALLEST_CHUNK = 4096

_KNOWN = frozenset(
    "payload redact port chunk_size kind progress keylog from_time until_time separate max_expanded".split()
)
_UNORDERED = "a DataFrame has no order until it is sorted: .orderBy(COLUMN)"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Options of a job. `chunk_bytes` is the approximate size of a partition. With `whole_flows`, tasks may
    read all packets and dissect whole flows, if that takes less time."""

    options: Options = field(default_factory=Options)
    chunk_bytes: int = CHUNK_BYTES
    whole_flows: bool = True


def read_options(values: Mapping[str, object]) -> JobOptions:
    """The options of `read` and `plan`. Raises SparkError for an unknown or invalid one."""
    for name in values.keys() - _KNOWN:
        remedy = _UNORDERED if name == "sort" else f"there are {', '.join(sorted(_KNOWN))}"
        raise SparkError(f"read has no option {name!r}", remedy)
    payload, port = values.get("payload", "none"), values.get("port", {})
    if not isinstance(payload, str) or payload not in PAYLOADS:
        raise SparkError(f"there is no payload {payload!r}", f"there are {', '.join(PAYLOADS)}")
    if not isinstance(port, Mapping) or not all(kind in list(KINDS) for kind in port.values()):
        raise SparkError(
            f"port={port!r} is not a mapping of ports to kinds", 'say port={4222: "client"}'
        )
    size = _size(values, "chunk_size", SMALLEST_CHUNK)
    try:
        options = Options(
            {_port(number): KINDS[kind] for number, kind in port.items()},
            PAYLOADS[payload],
            _flag(values, "redact", True),
            kinds=_kinds(values.get("kind")),
            from_time=_text(values, "from_time"),
            until_time=_text(values, "until_time"),
            separate=_flag(values, "separate", False),
            max_expanded=_size(values, "max_expanded", 0),
            key_logs=_names(values.get("keylog", ())),
        )
    except ValueError as error:
        raise SparkError(str(error)) from None
    return JobOptions(options=options, chunk_bytes=CHUNK_BYTES if size is None else size)


def _port(value: object) -> int:
    """A port, also as a text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value[:6])
    if not isinstance(value, int):
        raise SparkError(f"{value!r} is not a port", 'say port={4222: "client"}')
    return value


def _flag(values: Mapping[str, object], name: str, default: bool) -> bool:
    """True or False. Other values are refused: None would show secrets, and "false" is a true value."""
    value = values.get(name, default)
    if not isinstance(value, bool):
        raise SparkError(f"{name}={value!r} is not True or False")
    return value


def _size(values: Mapping[str, object], name: str, least: int) -> int | None:
    """A number of bytes, if there is one."""
    size = values.get(name)
    if size is not None and (not isinstance(size, int) or size < least):
        raise SparkError(f"{name}={size!r} is not a number of bytes from {least} on")
    return size


def _text(values: Mapping[str, object], name: str) -> str | None:
    """A time, if there is one."""
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise SparkError(
            f"{name}={value!r} is not text", f"say {name}='2026-11-21T02:01', or '1.5'"
        )
    return value


def _names(value: object) -> tuple[str, ...]:
    """One path or several."""
    names = (value,) if isinstance(value, (str, os.PathLike)) else value
    if not isinstance(names, Collection) or not all(
        isinstance(name, (str, os.PathLike)) for name in names
    ):
        raise SparkError(f"keylog={value!r} is not a path", "say keylog='keys.log'")
    return tuple(map(os.fspath, names))


def _kinds(values: object) -> frozenset[Kind] | None:
    """The requested kinds of connections; None: all."""
    if values is None:
        return None
    names = [values] if isinstance(values, str) else values
    if not isinstance(names, Collection) or not all(name in list(KINDS) for name in names):
        raise SparkError(
            f"kind={values!r} is not a kind of connection", f"there are {', '.join(KINDS)}"
        )
    return frozenset(KINDS[name] for name in names)
