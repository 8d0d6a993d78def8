"""`ServiceClient`: finds services, and requests their descriptions and statistics (ADR-32)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TypeVar

from .._checks import check_core, check_text
from ..core import Core
from ..errors import InvalidResponseError, NoRespondersError, ProtocolError
from ..message import Msg
from .errors import ServiceError
from .naming import PREFIX, Verb, control_subject
from .request import raise_for_error
from .responses import (
    ServiceInfo,
    ServicePing,
    ServiceStats,
    read_response,
)

__all__ = ["ServiceClient"]

TIMEOUT = 2.0
STALL = 0.5

_R = TypeVar("_R")


class ServiceClient:
    """Queries services: all of them, those with one `name`, or the instance with the id `id`.

    Each call waits at most `timeout` seconds in total, and `stall` seconds after the last response;
    with an `id` it waits for one response. No response is not an error: the list is then empty. An
    invalid response raises InvalidResponseError, with the valid ones in `others`. `prefix` is
    `$SRV`, unless the account imports the services of another account under another subject. Raises
    ConnectionReconnectingError if the connection is lost meanwhile, as responses may be missing.
    Any thread may call any method.
    """

    def __init__(
        self,
        nc: Core,
        *,
        timeout: float | None = TIMEOUT,
        stall: float = STALL,
        prefix: str = PREFIX,
    ) -> None:
        check_core(nc)
        check_text(prefix=prefix)
        self._nc = nc
        self._timeout = timeout
        self._stall = stall
        self._prefix = prefix

    def ping(self, name: str = "", id: str = "") -> list[ServicePing]:
        """Returns the running instances in the order of their responses, each with its round trip
        time `rtt`."""
        asked = monotonic()
        return self._ask(
            Verb.PING,
            name,
            id,
            lambda at, data: read_response(ServicePing, at, data, rtt=monotonic() - asked),
        )

    def info(self, name: str = "", id: str = "") -> list[ServiceInfo]:
        """Returns their descriptions: version, description, metadata, endpoints."""
        return self._ask(Verb.INFO, name, id, partial(read_response, ServiceInfo))

    def stats(self, name: str = "", id: str = "") -> list[ServiceStats]:
        """Returns the statistics of their endpoints: requests, errors, times."""
        return self._ask(Verb.STATS, name, id, partial(read_response, ServiceStats))

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
            except NoRespondersError:  # the same as no response
                pass
        if wrong:
            raise InvalidResponseError(subject, wrong.reason, tuple(found)) from wrong
        return found


def _read(subject: str, msg: Msg, read: Callable[[str, bytes], _R]) -> _R:
    try:
        return read(subject, raise_for_error(msg).data)
    except (ServiceError, ProtocolError) as error:  # ProtocolError: headers that cannot be read
        raise InvalidResponseError(subject, str(error)) from error
