"""`BlockingIterator`: the common interface of all readers of messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from .consume_errors import MessagesClosedError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["BlockingIterator"]

_T = TypeVar("_T")


class BlockingIterator(ABC, Generic[_T]):
    """Iterates over the results of `next`, which may block, until MessagesClosedError; a `with`
    block stops the iterator at its end."""

    @abstractmethod
    def next(self, timeout: float | None = None) -> _T:
        """Returns the next item; waits up to `timeout` seconds for it, or for ever."""

    @abstractmethod
    def stop(self) -> object:
        """Ends the iteration, for every thread."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _T:
        try:
            return self.next()
        except MessagesClosedError:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
