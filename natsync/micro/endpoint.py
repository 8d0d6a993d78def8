"""`Endpoint`: a subject of a service, its handler and its statistics.

Threads: requests are handled on the threads of the subscription, `workers` at a time; any thread
may read the statistics. One lock guards the counts, and is never held while the handler runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import perf_counter_ns

from .._checks import is_kill
from ..errors import Error, MsgNoReplyError
from ..message import Msg
from ..subscription import Subscription
from .errors import ServiceError
from .request import Request
from .responses import EndpointInfo, EndpointStats

__all__ = ["Endpoint", "RequestHandler"]

RequestHandler = Callable[[Request], object]
"""Called by an endpoint with each request; the result is ignored."""

_INTERNAL_ERROR = 500


class Endpoint:
    """A subject of a service. Made by `Service.add_endpoint` and `Group.add_endpoint`."""

    def __init__(
        self,
        name: str,
        subject: str,
        queue_group: str,
        metadata: Mapping[str, str],
        handler: RequestHandler,
    ) -> None:
        self.info = EndpointInfo(name, subject, queue_group, metadata)
        """Its name, subject, queue group and metadata."""
        self.subscription: Subscription | None = None
        """Its subscription: how many requests are pending, and how many were dropped over the limits."""
        self._handler = handler
        self._lock = threading.RLock()  # a signal handler may ask for statistics
        self._requests = self._errors = self._nanoseconds = 0
        self._last_error = ""

    def stats(self) -> EndpointStats:
        """Returns its statistics at this moment, without `data`. A request is counted when its
        handler starts; its time is added when the handler ends."""
        info = self.info
        with self._lock:
            return EndpointStats(
                info.name,
                info.subject,
                info.queue_group,
                self._requests,
                self._errors,
                self._last_error,
                self._nanoseconds,
                self._nanoseconds // self._requests if self._requests else 0,
            )

    def reset(self) -> None:
        """Sets its statistics to zero."""
        with self._lock:
            self._requests = self._errors = self._nanoseconds = 0
            self._last_error = ""

    def count_error(self, text: str) -> None:
        """Counts an error, and records it as the last one."""
        with self._lock:
            self._errors += 1
            self._last_error = text

    def handle(self, msg: Msg) -> None:
        """Handles a request. A ServiceError becomes the response. Any other exception becomes a
        response with code 500 that contains only the exception's type, since its text may be
        confidential, and is raised."""
        request = Request(msg, self.count_error)
        with self._lock:
            self._requests += 1
        start = perf_counter_ns()
        try:
            try:
                self._handler(request)
            except ServiceError as error:
                self._answer(request, error)
        except BaseException as error:
            if is_kill(error):
                raise
            # The boundary to user code: every exception is counted and reported.
            with suppress(Error):  # the handler's error matters more
                self._answer(request, ServiceError(_INTERNAL_ERROR, type(error).__name__))
            raise
        finally:
            spent = perf_counter_ns() - start
            with self._lock:
                self._nanoseconds += spent

    def _answer(self, request: Request, error: ServiceError) -> None:
        """Answers with `error`, unless the handler has already answered with an error."""
        if request.answered_error:
            return
        with suppress(MsgNoReplyError):  # no response is wanted; the error is counted
            request.respond_error(error.code, error.description, error.data)

    def __repr__(self) -> str:
        return f"Endpoint({self.info.name!r}, subject={self.info.subject!r})"
