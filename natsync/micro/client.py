"""`ServiceClient`: finds services and asks them what they are and how they do (ADR-32)."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from .._checks import check_text
from ..core import Core
from ..errors import NoRespondersError
from ..message import Msg
from .errors import InvalidResponseError, ServiceError
from .naming import PREFIX, Verb, control_subject
from .request import raise_for_error
from .responses import (
    ServiceInfo,
    ServicePing,
    ServiceStats,
    read_info,
    read_ping,
    read_stats,
)

__all__ = ["ServiceClient"]

TIMEOUT = 2.0
STALL = 0.5

_R = TypeVar("_R")


class ServiceClient:
    """Asks services about themselves: all of them, those of one `name`, or the instance `id` of it.

    Each call waits for at most `timeout` seconds in all, and for `stall` seconds after the last response;
    with an `id`, for one response. None is not an error: the list is empty. A response that is none raises
    InvalidResponseError, with those that are good in `others`. `prefix` is `$SRV`, unless the account imports
    the services of another one under another subject. Raises ConnectionReconnectingError where the
    connection is lost meanwhile, so that there may be more. For any thread.
    """

    def __init__(
        self,
        nc: Core,
        *,
        timeout: float | None = TIMEOUT,
        stall: float = STALL,
        prefix: str = PREFIX,
    ) -> None:
        check_text(prefix=prefix)
        self._nc = nc
        self._timeout = timeout
        self._stall = stall
        self._prefix = prefix

    def ping(self, name: str = "", id: str = "") -> list[ServicePing]:
        """The instances that are there, the fastest first, each with its round trip `rtt`."""
        asked = monotonic()
        return self._ask(
            Verb.PING, name, id, lambda at, data: read_ping(at, data, monotonic() - asked)
        )

    def info(self, name: str = "", id: str = "") -> list[ServiceInfo]:
        """What they are: version, description, metadata, endpoints."""
        return self._ask(Verb.INFO, name, id, read_info)

    def stats(self, name: str = "", id: str = "") -> list[ServiceStats]:
        """How their endpoints do: requests, errors, times."""
        return self._ask(Verb.STATS, name, id, read_stats)

    def _ask(self, verb: Verb, name: str, id: str, read: Callable[[str, bytes], _R]) -> list[_R]:
        subject = control_subject(verb, name, id, self._prefix)
        found: list[_R] = []
        wrong: InvalidResponseError | None = None
        replies = self._nc.request_many(
            subject, timeout=self._timeout, stall=self._stall, max_msgs=1 if id else None
        )
        with replies:
            try:
                for msg in replies:
                    try:
                        found.append(_read(subject, msg, read))
                    except InvalidResponseError as error:
                        wrong = error
            except NoRespondersError:  # as good as no response
                pass
        if wrong:
            raise InvalidResponseError(subject, wrong.reason, tuple(found)) from wrong
        return found


def _read(subject: str, msg: Msg, read: Callable[[str, bytes], _R]) -> _R:
    try:
        return read(subject, raise_for_error(msg).data)
    except ServiceError as error:
        raise InvalidResponseError(subject, str(error)) from error
