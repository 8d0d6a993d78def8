"""The subjects of a NATS Streaming server: which message goes where.

A client sends its connection request to `_STAN.discover.CLUSTER`, or to another prefix that its server is
configured with; the answer names all other subjects (stan.go: pb/protocol.proto, nats-streaming-server:
server/server.go). If that exchange was not captured, the default subjects still show the type of a message,
provided that its payload agrees.
"""

from __future__ import annotations

from typing import NamedTuple

from natsync.protocol.streaming import ConnectResponse

_DEFAULTS = (
    ("_STAN.discover.", "connect"),
    ("_STAN.pub.", "publish"),
    ("_STAN.sub.", "subscribe"),
    ("_STAN.unsub.", "unsubscribe"),
    ("_STAN.subclose.", "close_subscription"),
    ("_STAN.close.", "close"),
)
_PINGS = ".pings"
_MOST = 1024  # subjects of servers that a session remembers


class Purpose(NamedTuple):
    """The request that a message to a subject makes, its cluster, and how that is known: `discovered` or
    `subject`. `channel` is the rest of a publication's subject."""

    op: str
    cluster: str
    evidence: str
    channel: str = ""


class StreamingSubjects:
    """The subjects that one session has shown."""

    def __init__(self) -> None:
        self._known: dict[str, Purpose] = {}
        self._prefixes: dict[str, Purpose] = {}

    def learn(self, cluster: str, response: ConnectResponse) -> None:
        """Adds the subjects that a server names in its answer to a connection request."""
        if len(self._known) >= _MOST or len(self._prefixes) >= _MOST:
            return
        for op, subject in (
            ("subscribe", response.sub_requests),
            ("unsubscribe", response.unsub_requests),
            ("close_subscription", response.sub_close_requests),
            ("close", response.close_requests),
            ("ping", response.ping_requests),
        ):
            if subject:
                self._known[subject] = Purpose(op, cluster, "discovered")
        if response.pub_prefix:
            self._prefixes[response.pub_prefix] = Purpose("publish", cluster, "discovered")

    def purpose(self, subject: str) -> Purpose | None:
        """The purpose of a message to this subject; None if it is unknown."""
        found = self._known.get(subject)
        if found:
            return found
        for prefix, purpose in self._prefixes.items():
            if subject.startswith(prefix) and subject[len(prefix) : len(prefix) + 1] == ".":
                return purpose._replace(channel=subject[len(prefix) + 1 :])
        if not subject.startswith("_STAN."):
            return None
        for start, op in _DEFAULTS:
            if subject.startswith(start):
                rest = subject[len(start) :]
                if op == "publish":
                    cluster, _, channel = rest.partition(".")
                    return Purpose(op, cluster, "subject", channel)
                if op == "connect" and rest.endswith(_PINGS):
                    return Purpose("ping", rest.removesuffix(_PINGS), "subject")
                return Purpose(op, rest, "subject")
        return None
