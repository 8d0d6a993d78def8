"""Whether the kernel runs: the variable `NATS_DISSECT_KERNEL`, numba, and the size of the captures.

With `off`, Python reads everything; with `on`, the kernel is used for captures of any size and connections of
any length, for tests. The kernel is imported only here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ..errors import MissingLibrary, imported
from ..framing.trace import is_traced
from ..options import Options, Payload
from ..tables import TABLES, layers_of
from ..types import Share
from .cooldown import WORTH
from .state import Reads

if TYPE_CHECKING:
    from .arrays import Arrays

VARIABLE = "NATS_DISSECT_KERNEL"
LOADED_AFTER = 48 << 20
"""The bytes of packets after which the kernel is loaded: Python takes as long for these as loading takes."""
_TABLES = frozenset({"frames", "sessions", "flows", "subscriptions", "anomalies", "requests"})
_SLOTS = 1 << 14


def _compiles_in_silence(text: str) -> None:
    """Says nothing."""


on_compile: Callable[[str], None] = _compiles_in_silence
"""Called with a line that says so before the kernel is compiled. Commands set it."""


def lack() -> str:
    """Why there is no kernel; empty if there is one."""
    if os.environ.get(VARIABLE) == "off":
        return f"{VARIABLE} is off"
    try:
        imported("numba", "fast")
    except MissingLibrary as error:
        return str(error)
    return ""


def description() -> str:
    """What reads plain packets of large captures."""
    from importlib import metadata  # imported here: it takes a tenth of a command's start-up time

    why = lack()
    return f"Python alone: {why}" if why else f"the kernel, numba {metadata.version('numba')}"


def serves(tables: Collection[str], options: Options, share: Share | None = None) -> bool:
    """Whether the kernel makes these tables. The others need every frame. Beside `sessions`, it serves
    layers. Processes with a `share` of the flows each do not use it for frames: it releases those of many
    packets at once, and these could not be merged with others."""
    if os.environ.get(VARIABLE) == "off" or is_traced() or options.payload is not Payload.NONE:
        return False
    if share and "frames" in tables:
        return False
    if "sessions" in tables and layers_of(tables):
        return options.kind is None and TABLES.keys() >= {*tables}
    if "requests" in tables and ("frames" in tables or options.kind is not None):
        return False
    return _TABLES.issuperset(tables)


def least_packets() -> int:
    """The packets that a connection must have had before it is handed over."""
    return 0 if os.environ.get(VARIABLE) == "on" else WORTH


def _reads(tables: Collection[str]) -> Reads:
    """Which messages the layers of these tables read."""
    layers = layers_of(tables)
    if not layers:
        return Reads.NONE
    return Reads.MARKED if all(layer.marked for layer in layers) else Reads.ALL


class Loader:
    """Loads the arrays of the kernel once there are so many packets that it pays. `size` is the size of the
    captures, if it is known. There is room for what `tables` need."""

    def __init__(
        self, options: Options, size: int | None = None, tables: Collection[str] = ()
    ) -> None:
        self._rows = "frames" in tables
        self._layers = _reads(tables)
        self._left = LOADED_AFTER
        if os.environ.get(VARIABLE) == "on" or size is not None and size >= LOADED_AFTER:
            self._left = 0
        self._slots = min(_SLOTS // 4 if self._layers else _SLOTS, options.max_flows)

    def arrays(self, size: int) -> Arrays | None:
        """The arrays, if they are loaded before a run of `size` bytes."""
        self._left -= size
        if self._left >= 0:
            return None
        try:
            from .arrays import Arrays
        except ImportError:
            self._left = 1 << 62
            return None
        return Arrays(self._slots, self._rows, self._layers, on_compile)
