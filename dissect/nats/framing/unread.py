"""The items that the layers of a connection made from one packet, and that its streams have not read yet.

A layer may begin in the middle of these items. It then takes the items after its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import Item
from .frame_stream import FrameStream


class Unread:
    """Returns items one by one, unless a layer withdraws them first."""

    def __init__(self) -> None:
        self._lists: list[list[tuple[FrameStream, Item]]] = []  # reading one may create another

    def each(self, items: Sequence[tuple[FrameStream, Item]]) -> Iterator[tuple[FrameStream, Item]]:
        """The items in order, each with its stream."""
        left = list(reversed(items))
        self._lists.append(left)
        while left:
            yield left.pop()
        self._lists.pop()

    def withdraw(self, stream: FrameStream) -> list[Item]:
        """Removes the unread items of a stream, and returns them in order."""
        found: list[Item] = []
        for left in reversed(self._lists):
            found += [item for owner, item in reversed(left) if owner is stream]
            left[:] = [pair for pair in left if pair[0] is not stream]
        return found
