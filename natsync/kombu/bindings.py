"""`Bindings`: which queues are bound to which exchange, for all processes of a broker.

The bindings are the values of a key-value bucket. Each process watches the bucket, so it looks up
bindings without a request. A binding made by another process takes effect a moment later; if no
binding matches a message, the process first waits for the changes that are already in the bucket.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from ..errors import NextMsgTimeoutError
from ..jetstream import JetStream
from ..kv import Entry, KeyValue, KeyValueConfig, Operation, Watcher
from .naming import Names, encode

__all__ = ["KINDS", "Binding", "Bindings"]

_log = logging.getLogger("natsync.kombu")

KINDS = frozenset({"direct", "topic", "fanout"})  # the types of exchanges

_LONGEST = 1.0  # the most seconds that `refresh` waits for changes in the bucket
_KEPT = 3600.0  # seconds that the bucket keeps the marker of a removed binding


class Binding(NamedTuple):
    """A row of an exchange's table, as in kombu: `pattern` is the regular expression of a topic;
    and the type of the exchange, for processes that have not declared it (empty: unknown)."""

    routing_key: str
    pattern: str | None
    queue: str
    kind: str = ""


class Bindings:
    """The bindings of one broker, for one thread at a time. Methods raise the errors of
    `JetStream`."""

    def __init__(self, js: JetStream, names: Names, replicas: int) -> None:
        self._js = js
        self._config = KeyValueConfig(names.bucket("bindings"), replicas=replicas)
        self._bucket: KeyValue | None = None
        self._watcher: Watcher | None = None
        self._revision = 0
        self._own: dict[str, Binding] = {}  # by key: the bindings that this process has made
        self._awaited: dict[str, int] = {}  # by key: revisions that the watch has yet to deliver
        self._table: dict[str, dict[str, Binding]] = {}  # by the exchange's token, then by key

    def add(self, exchange: str, binding: Binding) -> None:
        """Binds a queue. An existing binding is written again: another process may have just
        removed it."""
        key = _key(exchange, binding)
        rows = self._rows(exchange)
        self._awaited[key] = self._open().put(key, json.dumps(binding).encode())
        rows[key] = self._own[key] = binding

    def restore(self, queue: str) -> None:
        """Restores the bindings of a queue that this process has made. Any thread may call this."""
        for key, binding in list(self._own.items()):
            if binding.queue == queue:
                self._open().put(key, json.dumps(binding).encode())

    def remove(self, exchange: str, binding: Binding) -> None:
        """Removes a binding."""
        self._remove(_key(exchange, binding))

    def remove_queue(self, queue: str) -> None:
        """Removes all bindings of a queue."""
        self._follow()
        for rows in list(self._table.values()):
            for key in [key for key, row in rows.items() if row.queue == queue]:
                self._remove(key)

    def of(self, exchange: str) -> list[Binding]:
        """Returns the bindings of an exchange."""
        return list(self._rows(exchange).values())

    def refresh(self) -> None:
        """Waits up to a second until everything that is now in the bucket has arrived."""
        last = self._open().status().info.state.last_seq
        until = monotonic() + _LONGEST
        while self._revision < last and monotonic() < until:
            self._follow(until - monotonic())

    def close(self) -> None:
        """Ends the watch."""
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher = None

    def _remove(self, key: str) -> None:
        self._own.pop(key, None)
        self._open().purge(key)
        self._table.get(key.partition(".")[0], {}).pop(key, None)

    def _rows(self, exchange: str) -> dict[str, Binding]:
        self._follow()
        return self._table.setdefault(encode(exchange), {})

    def _open(self) -> KeyValue:
        if self._bucket is None:
            self._bucket = self._js.create_or_update_key_value(self._config)
            self._bucket.purge_deletes(older_than=_KEPT)
        return self._bucket

    def _follow(self, timeout: float = 0.0) -> None:
        """Applies the changes that have arrived; waits up to `timeout` seconds for the first
        one."""
        if self._watcher is None:
            self._watcher = self._open().watch()
            while (entry := self._watcher.next()) is not None:
                self._take(entry)
        with suppress(NextMsgTimeoutError):
            while True:
                if (entry := self._watcher.next(timeout)) is not None:
                    self._take(entry)
                timeout = 0.0

    def _take(self, entry: Entry) -> None:
        self._revision = entry.revision
        awaited = self._awaited.get(entry.key, 0)
        if entry.revision >= awaited:
            self._awaited.pop(entry.key, None)
        if entry.revision <= awaited:  # already in the table, or removed again meanwhile
            return
        rows = self._table.setdefault(entry.key.partition(".")[0], {})
        binding = _read(entry) if entry.operation is Operation.PUT else None
        if binding:
            rows[entry.key] = binding
        else:
            rows.pop(entry.key, None)


def _read(entry: Entry) -> Binding | None:
    """Returns the binding in an entry. Logs an entry that is none: every process would fail on it."""
    try:
        routing_key, pattern, queue, *more = json.loads(entry.value)
        (kind,) = more or [""]  # earlier states of natsync wrote none
        texts = (routing_key, queue) if pattern is None else (routing_key, queue, pattern)
        if all(isinstance(text, str) for text in texts) and kind in {*KINDS, ""}:
            return Binding(routing_key, pattern, queue, kind)
    except (ValueError, TypeError, RecursionError):
        pass
    _log.error("the entry %r of bucket %s is no binding of kombu", entry.key, entry.bucket)
    return None


def _key(exchange: str, binding: Binding) -> str:
    return ".".join(map(encode, (exchange, binding.queue, binding.routing_key)))
