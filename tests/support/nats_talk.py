"""Captures of made-up NATS connections, in a few words: what a client and its server say, line by line.

    records_of([session(pub("a", b"x"), "<-ERR 'Stale Connection'")], ["frames"], folder)

A line that begins with `>` is the client's, one with `<` the server's; both get their line end.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dissect.nats import records
from dissect.nats.records import Record
from natsync.protocol import encode_headers

from tests.support.pcapwriter import START_NS, Talk, pcap_file

INFO = {
    "server_id": "NSERVER",
    "server_name": "demo",
    "version": "2.15.1",
    "proto": 1,
    "headers": True,
    "max_payload": 1048576,
    "client_id": 5,
}
CONNECT = {
    "verbose": False,
    "pedantic": False,
    "lang": "go",
    "version": "1.48.0",
    "name": "app",
    "protocol": 1,
    "headers": True,
    "no_responders": True,
}
_PRIVATE = "10.0.0.1"


@dataclass(frozen=True)
class Said:
    """Bytes of one side, or, without any, that seconds pass."""

    client: bool = True
    data: bytes = b""
    seconds: float = 0.0


@dataclass(frozen=True)
class Session:
    """One connection of a client: INFO, CONNECT unless it is None, then `steps`."""

    steps: tuple[Said | str, ...]
    info: Mapping[str, object] = field(default_factory=dict)
    connect: Mapping[str, object] | None = field(default_factory=dict)
    client: str = _PRIVATE
    seconds: float = 0.0
