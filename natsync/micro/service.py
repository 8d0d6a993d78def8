"""`Service`: endpoints under one name, which answer queries about themselves on `$SRV` (ADR-32).

Requests are handled on the threads of each endpoint's subscription; PING, INFO and STATS on at most
two threads of the service, which start with the first of these requests. A service stops when
`stop` is called, when its connection is closed or drained, and when one of its subscriptions ends: the
server has refused it, or the program has unsubscribed it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

from .._checks import check_call, check_core, check_text
from .._engine.log import logger
from .._engine.waiter import Event
from ..core import Core
from ..errors import BadSubscriptionError, ConnectionClosedError, DrainTimeoutError, Error
from ..message import Msg
from ..options import PENDING_BYTES_LIMIT, PENDING_MSGS_LIMIT, wait_time
from ..subscription import Subscription, drain_all
from .endpoint import Endpoint, RequestHandler
from .errors import ServiceStoppedError
from .naming import (
    Verb,
    check_endpoint_subject,
    check_group,
    check_name,
    check_queue_group,
    check_version,
    control_subject,
)
from .responses import EndpointStats, ServiceInfo, ServicePing, ServiceStats, to_json

__all__ = ["Group", "Service", "add_service"]

QUEUE_GROUP = "q"
DRAIN_TIMEOUT = 30.0
_CONTROL_WORKERS = 2  # so that STATS, which runs user code, does not delay a PING

StatsHandler = Callable[[EndpointStats], object]


def add_service(
    nc: Core,
    name: str,
    version: str,
    *,
    description: str = "",
    metadata: Mapping[str, str] | None = None,
    queue_group: str | None = None,
    stats_handler: StatsHandler | None = None,
    on_stop: Callable[[Error | None], object] | None = None,
) -> Service:
    """Starts an instance of the service `name` on `nc`, and returns at once. Add endpoints to it.

    `version` is a semantic version. Endpoints are in the queue group `q`, so that only one instance
    gets each request, unless `queue_group` names another group; with the empty string there is no
    group, and every instance gets each request. `stats_handler` gets the statistics of an endpoint
    and returns their `data`, which must be valid for JSON. `on_stop` is called once when the
    service has stopped, with the error that stopped it, if there was one: None after `stop` and
    after `drain` of the connection.

    Raises OptionError, ProtocolError or TypeError for arguments that ADR-32 forbids, and
    ConnectionClosedError.
    """
    check_core(nc)
    check_name(name)
    check_version(version)
    check_queue_group(queue_group)
    check_call(stats_handler=stats_handler, on_stop=on_stop)
    about = ServiceInfo(
        name,
        nc.new_inbox().rpartition(".")[2],
        version,
        description,
        {} if metadata is None else metadata,
    )
    service = Service(nc, about, queue_group, stats_handler, on_stop)
    service.start()
    return service


class Group:
    """A prefix for the subjects of endpoints, with its own queue group. Made by `add_group`."""

    def __init__(self, service: Service, prefix: str, queue_group: str) -> None:
        self._service = service
        self.prefix = prefix
        """The prefix of the subjects of its endpoints; it may be empty."""
        self.queue_group = queue_group
        """The queue group of endpoints that do not name one."""

    def add_group(self, name: str, *, queue_group: str | None = None) -> Group:
        """Returns a group below this one, with the prefix `PREFIX.name`. An empty name adds
        nothing."""
        check_group(name)
        check_queue_group(queue_group)
        own = self.queue_group if queue_group is None else queue_group
        return Group(self._service, ".".join(filter(None, (self.prefix, name))), own)

    def add_endpoint(
        self,
        name: str,
        handler: RequestHandler,
        *,
        subject: str | None = None,
        queue_group: str | None = None,
        metadata: Mapping[str, str] | None = None,
        workers: int = 1,
        executor: Executor | None = None,
        pending_msgs_limit: int = PENDING_MSGS_LIMIT,
        pending_bytes_limit: int = PENDING_BYTES_LIMIT,
    ) -> Endpoint:
        """Adds an endpoint: calls `handler` with each `Request` to `subject` (by default, `name`)
        below the group's prefix.

        Requests are handled in order, on a separate thread; `workers`, `executor` and the limits
        are those of `Client.subscribe`. `metadata` may hold schemas or other text for readers of
        INFO. Raises ServiceStoppedError, and the errors of `add_service`.
        """
        check_name(name)
        check_queue_group(queue_group)
        if handler is None:
            raise TypeError("handler must be callable, not NoneType")
        check_call(handler=handler)
        subject = name if subject is None else subject
        check_text(subject=subject)
        whole = ".".join(filter(None, (self.prefix, subject)))
        check_endpoint_subject(whole)
        own = self.queue_group if queue_group is None else queue_group
        endpoint = Endpoint(name, whole, own, {} if metadata is None else metadata, handler)
        subscribe = partial(
            self._service.nc.subscribe,
            whole,
            queue=own,
            handler=endpoint.handle,
            workers=workers,
            executor=executor,
            pending_msgs_limit=pending_msgs_limit,
            pending_bytes_limit=pending_bytes_limit,
        )
        self._service.listen(endpoint, subscribe)
        return endpoint


class Service(Group):
    """An instance of a service. Made by `add_service`; a context manager that stops it. Any thread
    may use it."""

    def __init__(
        self,
        nc: Core,
        about: ServiceInfo,
        queue_group: str | None,
        stats_handler: StatsHandler | None,
        on_stop: Callable[[Error | None], object] | None,
    ) -> None:
        super().__init__(self, "", QUEUE_GROUP if queue_group is None else queue_group)
        self.nc = nc
        """The connection that it runs on."""
        self._about = about
        self._stats_handler = stats_handler
        self._on_stop = on_stop
        self._endpoints: list[Endpoint] = []
        self._control: list[Subscription] = []
        self._started = datetime.now(timezone.utc)
        # Guards the two lists and the flag. Signal handlers may stop the service or read statistics.
        self._lock = threading.RLock()
        self._stopping = False
        self._stopped = Event()
        self._executor = ThreadPoolExecutor(_CONTROL_WORKERS, f"service-{about.name}")

    def start(self) -> None:
        """Subscribes to the `$SRV` subjects. Called by `add_service`."""
        name, id = self.name, self.id
        answers = {Verb.PING: self._ping, Verb.INFO: self._info, Verb.STATS: self._stats}
        try:
            for verb, answer in answers.items():
                for subject in (
                    control_subject(verb),
                    control_subject(verb, name),
                    control_subject(verb, name, id),
                ):
                    self._control.append(
                        self.nc.subscribe(
                            subject,
                            handler=partial(self._answer, answer),
                            executor=self._executor,
                            on_close=self._control_closed,
                        )
                    )
        except BaseException:
            self._begin_to_stop()
            for sub in self._control:
                sub.unsubscribe()
            self._executor.shutdown(wait=False)
            raise

    @property
    def name(self) -> str:
        """The name that all instances of the service share."""
        return self._about.name

    @property
    def id(self) -> str:
        """The unique id of this instance."""
        return self._about.id

    @property
    def stopped(self) -> bool:
        """Whether it has stopped: no more requests arrive, and those that arrived are handled."""
        return self._stopped.is_set

    def info(self) -> ServiceInfo:
        """Returns its description, the response to INFO."""
        return replace(
            self._about, endpoints=tuple(replace(one.info) for one in self._endpoints.copy())
        )

    def stats(self) -> ServiceStats:
        """Returns the statistics of its endpoints, the response to STATS. Raises the errors of the
        stats handler."""
        found = [endpoint.stats() for endpoint in self._endpoints.copy()]
        if self._stats_handler:
            found = [replace(stats, data=self._stats_handler(stats)) for stats in found]
        return self._stats_of(found)

    def reset(self) -> None:
        """Sets all statistics to zero, and `started` to now."""
        self._started = datetime.now(timezone.utc)
        for endpoint in self._endpoints.copy():
            endpoint.reset()

    def stop(self, error: Error | None = None, *, timeout: float | None = DRAIN_TIMEOUT) -> None:
        """Ends all subscriptions of the service, waits until the requests that arrived are handled,
        and calls `on_stop` with `error`. The connection stays open.

        After the service has stopped, raises DrainTimeoutError if requests were not handled within
        `timeout` seconds. If a handler calls it, it does not wait for that handler. While the
        service is stopping, further calls return at once; `wait` waits.
        """
        seconds = wait_time(timeout)
        if not self._begin_to_stop():
            return
        late: DrainTimeoutError | None = None
        try:
            drain_all(self._subscriptions(), seconds)
        except DrainTimeoutError as failure:
            late = failure
        except Error as ended:  # the connection is closed: nothing is left to drain
            error = error or ended
        self._end(error)
        if late:
            raise late

    def wait(self, timeout: float | None = None) -> bool:
        """Waits up to `timeout` seconds until it has stopped; returns whether it has. For a main
        thread that has nothing else to do."""
        return self._stopped.wait(wait_time(timeout))

    def listen(self, endpoint: Endpoint, subscribe: Callable[..., Subscription]) -> None:
        """Subscribes an endpoint of this service or of one of its groups."""
        with self._lock:
            if not self._stopping:
                endpoint.subscription = subscribe(on_close=partial(self._endpoint_closed, endpoint))
                self._endpoints.append(endpoint)
            stopping = self._stopping
        if stopping:
            if endpoint.subscription:  # a signal handler has stopped the service meanwhile
                endpoint.subscription.unsubscribe()
            raise ServiceStoppedError(self.name)

    def _begin_to_stop(self) -> bool:
        """Returns whether the caller is the first to stop the service."""
        with self._lock:
            first, self._stopping = not self._stopping, True
        return first

    def _end(self, error: Error | None) -> None:
        self._executor.shutdown(wait=False)
        self._stopped.set()
        if self._on_stop:
            self._on_stop(error)

    def _subscriptions(self) -> list[Subscription]:
        endpoints = [endpoint.subscription for endpoint in self._endpoints]
        return [*filter(None, endpoints), *self._control]

    def _endpoint_closed(self, endpoint: Endpoint, error: Error) -> None:
        if not self._stopping:
            endpoint.count_error(str(error))
        self._subscription_closed(error)

    def _control_closed(self, error: Error) -> None:
        """The program cannot unsubscribe the `$SRV` subjects alone: it drains the connection."""
        if not isinstance(error, BadSubscriptionError):
            self._subscription_closed(error)
        elif self._begin_to_stop():
            # The callback thread must not wait for handlers; `drain` waits for this one in the end.
            drained = partial(self._or_log, self._drained)
            try:
                self.nc.start_thread(f"service-{self.name}", drained)
            except RuntimeError:  # the system is out of threads
                self._end(None)

    def _drained(self) -> None:
        """Waits until the requests that arrived before the connection was drained are handled."""
        with suppress(Error):  # the connection is closed: they are handled, or dropped
            drain_all(self._subscriptions(), None)
        self._end(None)

    def _subscription_closed(self, error: Error) -> None:
        """Handles the end of a subscription. Unless the service is stopping, the server has refused
        the subscription, the program has ended it, or the connection is closed. The service then
        stops, as it would otherwise look complete with an endpoint missing."""
        if self._stopping:
            return
        if not isinstance(error, ConnectionClosedError):
            # Not on the callback thread, for which a handler may be waiting.
            self._executor.submit(self._or_log, partial(self.stop, error))
        elif self._begin_to_stop():
            self._end(error)

    def _or_log(self, stop: Callable[[], None]) -> None:
        """Stops the service where nobody waits for the result: logs what `stop` raises."""
        try:
            stop()
        except BaseException:  # `on_stop` is code of the program
            logger().exception("stopping service %s failed", self.name)

    def _answer(self, answer: Callable[[], Iterator[bytes]], msg: Msg) -> None:
        """Answers a request on `$SRV`. A request without a reply subject is ignored."""
        for data in answer() if msg.reply else ():
            msg.respond(data)

    def _ping(self) -> Iterator[bytes]:
        about = self._about
        yield to_json(ServicePing(about.name, about.id, about.version, about.metadata))

    def _info(self) -> Iterator[bytes]:
        yield to_json(self.info())

    def _stats(self) -> Iterator[bytes]:
        """If the stats handler fails, the response lacks its data, and the error is reported."""
        try:
            answer = to_json(self.stats())
        except Exception:
            found = [endpoint.stats() for endpoint in self._endpoints.copy()]
            yield to_json(self._stats_of(found))
            raise
        yield answer

    def _stats_of(self, found: list[EndpointStats]) -> ServiceStats:
        about = self._about
        return ServiceStats(
            about.name, about.id, about.version, self._started, about.metadata, tuple(found)
        )

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Service({self.name!r}, {self._about.version}, id={self.id!r})"
