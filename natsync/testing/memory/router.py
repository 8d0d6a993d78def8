"""`Router`: passes each message to the subscriptions that match it, one of each queue group."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from ...protocol import matches

__all__ = ["Interest", "Message", "Router"]


class Message(NamedTuple):
    """A message on its way; `headers` is its header block."""

    subject: bytes
    reply: bytes = b""
    headers: bytes = b""
    payload: bytes = b""


class Interest:
    """A subscription: of a client, or of JetStream. `receive` returns whether it takes the message."""

    def __init__(
        self, pattern: bytes, receive: Callable[[Message], bool], queue: bytes = b""
    ) -> None:
        self.pattern = pattern
        self.queue = queue
        self.receive = receive
        self.wild = b"*" in pattern or b">" in pattern


class Router:
    """The interest of everybody."""

    def __init__(self) -> None:
        self._literal: dict[bytes, list[Interest]] = {}
        self._wild: list[Interest] = []

    def add(self, interest: Interest) -> None:
        """Adds a subscription."""
        self._of(interest).append(interest)

    def remove(self, interest: Interest) -> None:
        """Removes a subscription."""
        self._of(interest).remove(interest)
        if not interest.wild and not self._literal[interest.pattern]:
            del self._literal[interest.pattern]

    def _of(self, interest: Interest) -> list[Interest]:
        return self._wild if interest.wild else self._literal.setdefault(interest.pattern, [])

    def matching(self, subject: bytes) -> list[Interest]:
        """Returns the subscriptions to a subject."""
        found = [each for each in self._wild if matches(each.pattern, subject)]
        return [*self._literal.get(subject, ()), *found]

    def publish(self, message: Message, skip: object = None) -> bool:
        """Passes a message on, but not to the subscriptions whose `receive` is bound to `skip`; returns
        whether anybody took it."""
        taken = False
        groups: dict[bytes, list[Interest]] = {}
        for interest in self.matching(message.subject):
            if skip is not None and getattr(interest.receive, "owner", None) is skip:
                continue
            if interest.queue:
                groups.setdefault(interest.queue, []).append(interest)
            else:
                taken |= interest.receive(message)
        for members in groups.values():
            taken |= random.choice(members).receive(message)
        return taken
