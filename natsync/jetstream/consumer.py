"""`Consumer`: a consumer of a stream."""

from __future__ import annotations

from .api import API
from .infos import ConsumerInfo

__all__ = ["Consumer"]


class Consumer:
    """A consumer of a stream, for any number of threads. Made by `JetStream.consumer` and `Stream`."""

    def __init__(self, api: API, info: ConsumerInfo) -> None:
        self._api = api
        self._info = info

    @property
    def name(self) -> str:
        """Its name; the server's choice where it was made without one."""
        return self._info.name

    @property
    def stream_name(self) -> str:
        """The name of its stream."""
        return self._info.stream_name

    @property
    def cached_info(self) -> ConsumerInfo:
        """What the server said of it last; asks nobody."""
        return self._info

    def info(self) -> ConsumerInfo:
        """What the server says of it now. Raises ConsumerNotFoundError."""
        call = f"CONSUMER.INFO.{self.stream_name}.{self.name}"
        self._info = ConsumerInfo.from_json(self._api.request(call), self._api.subject(call))
        return self._info

    def __repr__(self) -> str:
        return f"Consumer({self.stream_name!r}, {self.name!r})"
