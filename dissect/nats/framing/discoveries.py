"""Discoveries: facts about the connection that a stream reports before it reads on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from natsync.protocol import Connect, Info

from ..transport.layer import Layer
from .resync.chain import Chain


@dataclass(frozen=True, slots=True)
class Handshake:
    """An INFO or a CONNECT was read."""

    frame: Info | Connect


@dataclass(frozen=True, slots=True)
class Proven:
    """Consecutive frames prove where a frame begins."""

    chain: Chain


@dataclass(frozen=True, slots=True)
class LayerBegins:
    """A layer begins where a frame should begin. The stream has not read its bytes yet."""

    layer: Layer


class Unread(Enum):
    """Nothing was discovered, but there are items left to read."""

    MORE = auto()


Discovery = Handshake | Proven | LayerBegins | Unread
