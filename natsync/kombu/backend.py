"""`ResultBackend`: Celery keeps its results in a key-value bucket.

>>> app = celery.Celery("orders", broker="nats://127.0.0.1:4222", backend="nats://127.0.0.1:4222")

All backends of a process that have the same URL and options share a client, whatever their threads and apps.
A process that is forked connects anew.

A write has an id, so that it is stored once however often it is tried; that makes `incr`, with which chords
count, exact, also if the answer to an attempt is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

from celery import states
from celery.backends.base import KeyValueStoreBackend
from celery.exceptions import BackendStoreError
from kombu.utils.encoding import bytes_to_str, ensure_bytes
from kombu.utils.functional import retry_over_time

from .. import Status, connect
from ..client import Client
from ..errors import MaxPayloadError
from ..jetstream import StreamNotFoundError, WrongLastSequenceError
from ..kv import KeyValueConfig
from .naming import Names
from .results import Last, Results
from .transport import Transport, masked, without_virtual_host

__all__ = ["ResultBackend"]

_Options: TypeAlias = dict[str, Any]  # options of users, who may pass anything
_T = TypeVar("_T")

_POLICY = ("max_retries", "interval_start", "interval_step", "interval_max")
_RETRIED = (*Transport.connection_errors, StreamNotFoundError)  # the bucket is made again
_LATE = 0.1  # the part of its time that a key may miss before it is written again to have all of it

_clients: dict[tuple[str, str], Client] = {}  # by URL and options


class ResultBackend(KeyValueStoreBackend):
    """A result backend on a bucket. Options come from `result_backend_transport_options`: `prefix`, `domain`,
    `replicas`, `storage` and `connect` as in `broker_transport_options`, and `retry_policy`.

    Calls during an outage are repeated by `retry_policy` (Celery's default: for about 20 seconds), then raise
    the error of natsync.
    """

    key_t = staticmethod(bytes_to_str)
    implements_incr = True
    supports_autoexpire = True
    supports_failure_expires = True
    supports_native_join = True
    supports_result_compression = True

    def __init__(self, *args: object, url: str | None = None, **kwargs: object) -> None:
        super().__init__(*args, url=url, expires_type=int, **kwargs)
        failure = self.app.conf.get("result_failure_expires")
        self._failure_expires: int | None = (
            self.expires if failure is None else self.prepare_expires(failure, type=int)
        )
        # `result_chord_expires` came with Celery 5.7.
        self._counter_expires: int | None = getattr(self, "chord_expires", self.expires)
        options: _Options = dict(self.app.conf.get("result_backend_transport_options") or {})
        servers, virtual_host = without_virtual_host(url or "")
        self._servers = servers if servers.partition("://")[2] else "nats://127.0.0.1:4222"
        self._connect_options: _Options = {"name": "celery results", **options.get("connect", {})}
        self._domain: str | None = options.get("domain")
        self._config = KeyValueConfig(
            Names(options.get("prefix", "kombu"), virtual_host).bucket("results"),
            replicas=options.get("replicas", 1),
            storage=options.get("storage", "file"),
        )
        self.retry_policy: _Options = KeyValueStoreBackend.retry_policy | options.get(
            "retry_policy", {}
        )
        self._opened: Results | None = None

    def __reduce__(  # type: ignore[override]  # as in all of Celery's backends
        self, args: tuple[object, ...] = (), kwargs: _Options | None = None
    ) -> object:
        return super().__reduce__(args, {**(kwargs or {}), "url": self.url})

    def as_uri(self, include_password: bool = False) -> str:
        """Returns the URL, without its password or token."""
        url: str = self.url or f"{self._servers}/"
        return url if include_password else ",".join(masked(each, "**") for each in url.split(","))

    def exception_safe_to_retry(self, exc: Exception) -> bool:
        """Returns whether Celery may repeat a call that failed so (`result_backend_always_retry`)."""
        return isinstance(exc, _RETRIED)

    def get(self, key: str) -> bytes | None:
        """Returns the value of a key; None if it has none."""
        return self._ensure(lambda: self._results().last(key).value)

    def mget(self, keys: Iterable[str]) -> list[bytes | None]:
        """Returns the values of several keys."""
        wanted = list(keys)
        return self._ensure(lambda: self._results().values(wanted))

    def set(self, key: str, value: str | bytes) -> None:
        """Sets the value of a key for `result_expires`."""
        self._set(key, value, self.expires)

    def _set_with_state(self, key: str, value: str | bytes, state: str) -> None:
        expires = self._failure_expires if state == states.FAILURE else self.expires
        self._set(key, value, expires)

    def _set(self, key: str, value: str | bytes, expires: float | None) -> None:
        msg_id = uuid4().hex
        self._ensure(
            lambda: self._results().write(key, ensure_bytes(value), expires, msg_id=msg_id)
        )

    def delete(self, key: str) -> None:
        """Deletes a key, which need not exist."""
        self._ensure(lambda: self._results().delete(key))

    def incr(self, key: str) -> int:
        """Adds one to a counter, which begins at 0, and returns its new value."""
        while True:
            last = self._ensure(lambda: self._results().last(key))
            count = int(last.value or 0) + 1
            if self._replaced(key, b"%d" % count, self._counter_expires, last.revision):
                return count

    def expire(self, key: str, value: float | None) -> None:
        """Makes a key expire `value` seconds from now, or never (0, None). Does nothing if the server has one
        time for all keys, or if the key has nearly this time: a chord asks for it with each of its tasks.
        """
        while True:
            last = self._ensure(lambda: self._results().last(key))
            if last.value is None or not self._results().expiring or _has_time(last, value):
                return
            if self._replaced(key, last.value, value, last.revision):
                return

    def wait_for(
        self,
        task_id: str,
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_interval: Callable[[], None] | None = None,
    ) -> _Options:
        """Returns the result of a task, as soon as the server tells that it is there. Calls `on_interval`
        every `interval` seconds meanwhile. Raises Celery's TimeoutError."""
        self._ensure_not_eager()
        until = None if timeout is None else monotonic() + timeout
        meta: _Options = self.get_task_meta(task_id)
        if meta["status"] in states.READY_STATES:
            return meta
        key = self.get_key_for_task(task_id)
        changes = self._ensure(lambda: self._results().changes(key))
        try:
            while True:
                if on_interval:
                    on_interval()
                left = interval if until is None else until - monotonic()
                if left <= 0:
                    raise self.TimeoutError("The operation timed out.")
                if changes.wait(min(interval, left)):
                    meta = self.get_task_meta(task_id)
                    if meta["status"] in states.READY_STATES:
                        return meta
        finally:
            changes.close()

    def close(self) -> None:
        """Closes the client of this process for this URL and these options; the next call makes a new one."""
        self._opened = None
        if client := _clients.pop(self._client_key, None):
            client.close()

    def _replaced(self, key: str, value: bytes, expires: float | None, revision: int) -> bool:
        """Sets the value of a key whose revision is this one; False if it is another by now."""
        msg_id = uuid4().hex
        uncertain = False  # whether an attempt may have succeeded whose answer was lost

        def attempt() -> bool:
            nonlocal uncertain
            results = self._results()
            try:
                results.write(
                    key, value, expires, msg_id=msg_id, expected_last_subject_seq=revision
                )
            except WrongLastSequenceError:
                return uncertain and results.has(msg_id)
            except Exception:
                uncertain = True
                raise
            return True

        return self._ensure(attempt)

    def _ensure(self, call: Callable[[], _T]) -> _T:
        """Returns what `call` returns; repeats it while there is no connection."""
        policy = {name: self.retry_policy[name] for name in _POLICY}
        try:
            done: _T = retry_over_time(call, _RETRIED, errback=self._forget_bucket, **policy)
        except MaxPayloadError as error:
            raise BackendStoreError(str(error)) from error
        return done

    def _forget_bucket(self, error: Exception, pauses: Iterator[float], number: int) -> float:
        """Opens the bucket again before the next attempt, which is made after the returned seconds."""
        self._opened = None
        return next(pauses)

    @property
    def _client_key(self) -> tuple[str, str]:
        return self._servers, repr(sorted(self._connect_options.items()))

    def _client(self) -> Client:
        client = _clients.get(self._client_key)
        if client is None or client.status is Status.CLOSED:
            _clients.pop(self._client_key, None)
            made = connect(self._servers, **self._connect_options)
            client = _clients.setdefault(self._client_key, made)
            if client is not made:  # another thread was faster
                made.close()
        return client

    def _results(self) -> Results:
        client = self._client()
        opened = self._opened
        if opened is None or opened.client is not client:
            times = (self.expires, self._counter_expires, self._failure_expires)
            lifetime = max(time or 0 for time in times) if all(times) else 0
            opened = self._opened = Results(client, self._domain, self._config, lifetime)
        return opened


def _has_time(last: Last, expires: float | None) -> bool:
    if not expires or last.remaining is None:
        return not expires and last.remaining is None
    return expires * (1 - _LATE) <= last.remaining <= expires
