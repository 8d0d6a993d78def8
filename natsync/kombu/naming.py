"""The names that exchanges, queues and routing keys of kombu have in NATS.

kombu allows any text. Streams, consumers, subjects and keys of a bucket all allow letters, digits, `-`, `_`
and `=`; every other byte is written as `=` and two hex digits, so that two names never become one.
"""

from __future__ import annotations

import re

__all__ = ["CONSUMER", "Names", "encode"]

CONSUMER = "kombu"
"""The one consumer of each queue's stream."""

_OTHER = re.compile(rb"[^A-Za-z0-9_-]")


def encode(name: str) -> str:
    """Returns `name` as one token; the empty one is `=`."""
    wire = name.encode("utf-8", "surrogatepass")
    return _OTHER.sub(lambda byte: b"=%02X" % byte[0][0], wire).decode("ascii") or "="


class Names:
    """The names of one virtual host: `prefix`, followed by its name unless that is `/` or empty."""

    def __init__(self, prefix: str, virtual_host: str = "") -> None:
        host = virtual_host.strip("/")
        self.prefix = f"{encode(prefix)}={encode(host)}" if host else encode(prefix)

    @property
    def bucket(self) -> str:
        """The bucket of the bindings; buckets have no `=` in their names."""
        return f"{self.prefix}_bindings".replace("=", "-")

    @property
    def subjects(self) -> str:
        """What matches the subjects of all queues."""
        return f"{self.prefix}.*"

    def stream(self, queue: str) -> str:
        """The stream of a queue."""
        return f"{self.prefix}_{encode(queue)}"

    def subject(self, queue: str) -> str:
        """The subject that puts a message into a queue."""
        return f"{self.prefix}.{encode(queue)}"
