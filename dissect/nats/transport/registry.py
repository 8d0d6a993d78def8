"""The known layers, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Collection

from . import proxy
from .layer import Detected, Heads, Layer, Undecided
from .s2 import layer as s2
from .tls import layer as tls
from .websocket import http_refusal
from .websocket import layer as websocket

LAYERS: list[Layer] = [proxy.LAYER, http_refusal.LAYER, websocket.LAYER, s2.LAYER, tls.LAYER]


def first_layer(heads: Heads, begun: Collection[str] = ()) -> Detected | Undecided | None:
    """The known layer with which a connection begins, except for those that have already `begun`. None: there
    is none."""
    waits = None
    for layer in LAYERS:
        if layer.name in begun:
            continue
        found = layer.begins(heads)
        if isinstance(found, Detected):
            return found
        waits = waits or found
    return waits


def next_layer(data: bytes, frames: int) -> Layer | None:
    """The layer that begins with `data` where a frame should begin, after `frames` frames."""
    return next((layer for layer in LAYERS if layer.replaces(data, frames)), None)


def layer_of(packet: bytes) -> Layer | None:
    """The layer with which a packet in the middle of a stream certainly begins, if there is one."""
    return next((layer for layer in LAYERS if layer.resumes(packet)), None)
