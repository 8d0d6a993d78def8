"""`ObjectWatcher`: the current objects of a store and all changes (ADR-20)."""

from __future__ import annotations

from ..jetstream.message import JetStreamMsg, MsgMetadata
from ..jetstream.watching import Watch
from .errors import StoreNotFoundError
from .info import ObjectInfo, read_info

__all__ = ["ObjectWatcher"]


class ObjectWatcher(Watch[ObjectInfo]):
    """An iterator over descriptions of objects. It yields None once, after those that existed when it began.
    Made by `ObjectStore.watch`. A message that describes no object raises BadObjectMetaError; the watch goes
    on after it.
    """

    def _read(self, msg: JetStreamMsg, origin: MsgMetadata) -> ObjectInfo | None:
        info = read_info(self._bucket, msg.subject, msg.data, origin.timestamp, origin.stream_seq)
        return None if self._ignore_deletes and info.deleted else info

    def _gone(self) -> StoreNotFoundError:
        return StoreNotFoundError(self._bucket)

    def __repr__(self) -> str:
        return f"ObjectWatcher(store {self._bucket!r})"
