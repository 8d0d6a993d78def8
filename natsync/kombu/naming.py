"""The names that exchanges, queues and routing keys of kombu have in NATS.

kombu allows any text. Streams, consumers, subjects and bucket keys all allow letters, digits, `-`,
`_` and `=`. Every byte other than a letter, digit, `-` or `_` is written as `=` and two hex digits,
so that two names never become the same.
"""

from __future__ import annotations

import re

__all__ = ["CONSUMER", "Names", "encode"]

CONSUMER = "kombu"
"""The name of the single consumer of each queue's stream."""

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

    def bucket(self, content: str) -> str:
        """Returns the name of the bucket of the bindings, or of the results; it has no `=`."""
        return f"{self.prefix}_{content}".replace("=", "-")

    @property
    def subjects(self) -> str:
        """The wildcard subject that matches the subjects of all queues."""
        return f"{self.prefix}.*"

    def stream(self, queue: str) -> str:
        """Returns the name of a queue's stream."""
        return f"{self.prefix}_{encode(queue)}"

    def subject(self, queue: str) -> str:
        """Returns the subject that adds a message to a queue."""
        return f"{self.prefix}.{encode(queue)}"
