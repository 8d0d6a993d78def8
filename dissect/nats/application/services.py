"""Services: endpoints with their requests, errors and latencies (ADR-32).

A service subscribes to `$SRV.PING`, `$SRV.INFO` and `$SRV.STATS`, also with its name and id appended, and
answers with JSON that names its endpoints. A connection with these subscriptions is a service's: its
latencies are those of the handlers. On other connections, the same answers and error headers on replies show
which requests go to services: their latencies are round trips. Subscriptions that a service's connection
makes after those to `$SRV.` are endpoints too; one that no answer describes has no name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from typing import Annotated, NamedTuple, TypeVar

from natsync.protocol import matches

from ..durations import Durations
from ..number_formats import size_text
from ..outcomes import service_error
from ..schema.anomalies import Anomaly
from ..schema.declaration import ApplicationLayer, LayerFrame, Table, TextColumn, text_columns
from ..schema.records import Record
from .exchanges import Exchanges
from .json_bodies import Object, read_object, text
from .messages import LINKS, MESSAGES_AND_INTEREST
from .recent import Recent
from .rows import SessionRow, counted, head, lasting, words

_K = TypeVar("_K")
_Subject = tuple[str | None, str]  # account and subject

_DISCOVERY = "$SRV."
_TYPE = "io.nats.micro.v1."
# Subjects per session whose requests are counted: those of the latest requests, because most subjects do not
# belong to services, and may occur only once.
_SUBJECTS = 4096
_SIDS = 1 << 16
_INSTANCES = 1024
_ENDPOINTS = 256  # of an instance
_WILD = 1024  # endpoints with wildcards, each of which is compared with every subject


def _error(row: ServiceRecord) -> str:
    return words(row.last_error_code, row.last_error, row=row)


def _volume(name: str) -> TextColumn:
    return TextColumn(name, 7, rank=3, render=size_text)


@dataclass(slots=True, kw_only=True)
class ServiceRecord(SessionRow):
    """One endpoint of a service, as one session saw it."""

    number: Annotated[int, "number of the first frame that shows the endpoint"]
    side: Annotated[
        str,
        "whose connection it is: service, or client for a connection that sends requests",
        TextColumn("side", 7),
    ]
    service: Annotated[
        str | None, "name of the service", TextColumn("service", 12, may_cut=True)
    ] = None
    instance: Annotated[
        str | None,
        "id of the instance, on the connection of the service",
        TextColumn("instance", 22, may_cut=True, rank=5),
    ] = None
    instances: Annotated[
        int | None, "number of instances that answered, on the connection of a client"
    ] = None
    version: Annotated[
        str | None,
        "version of the service, if its answers were captured",
        TextColumn("version", 7, rank=4),
    ] = None
    endpoint: Annotated[
        str | None,
        "name of the endpoint, if the service's answers were captured",
        TextColumn("endpoint", 10, may_cut=True),
    ] = None
    subject: Annotated[str, "subject of the endpoint", TextColumn("subject", 16, may_cut=True)]
    queue_group: Annotated[str | None, "queue group of the endpoint"] = None
    requests: Annotated[int, "number of requests", TextColumn("requests", 8)] = 0
    replies: Annotated[int, "number of requests that were answered"] = 0
    errors: Annotated[
        int,
        "number of answers with an error header, or that nobody listens",
        counted("errors", 6, alarm=True),
    ] = 0
    request_bytes: Annotated[int, "bytes of payload in the requests", _volume("in")] = 0
    reply_bytes: Annotated[int, "bytes of payload in the answers", _volume("out")] = 0
    latency_median_ns: Annotated[
        int | None, "median time from a request to its answer", lasting("median")
    ] = None
    latency_p99_ns: Annotated[
        int | None, "99th percentile of the time from a request to its answer", lasting("p99")
    ] = None
    latency_max_ns: Annotated[
        int | None, "longest time from a request to its answer", lasting("max")
    ] = None
    last_error: Annotated[
        str | None,
        "Nats-Service-Error of the last error",
        TextColumn("last error", 20, _error, may_cut=True, rank=2),
    ] = None
    last_error_code: Annotated[str | None, "Nats-Service-Error-Code of the last error"] = None
    last_ns: Annotated[int, "time of the last request or answer"]
    anomalies: Annotated[
        list[str] | None,
        "forgotten, if requests of the session are missing because too many wait for their answers, or go to "
        "too many subjects, or there are too many services",
    ] = None


@dataclass(slots=True)
class _ServiceEndpoint:
    """An endpoint of an instance, as the answers of the instance describe it."""

    name: str
    subject: str
    queue_group: str


@dataclass(slots=True)
class _Instance:
    """An instance of a service."""

    service: str
    account: str | None = None
    version: str = ""
    endpoints: dict[str, _ServiceEndpoint] = field(default_factory=dict)


@dataclass(slots=True)
class _Calls:
    """Requests on one subject, and their answers."""

    row: ServiceRecord
    latencies: Durations = field(default_factory=Durations)
    held_bytes = 0

    def answer(self, frame: LayerFrame, nobody: bool, latency_ns: int | None) -> bool:
        """Counts the answer to one of the requests."""
        row = self.row
        row.last_ns = frame.ts_ns
        row.reply_bytes += frame.payload_bytes or 0
        if nobody:
            row.errors += 1
            return False
        row.replies += 1
        if latency_ns is not None:
            self.latencies.add(latency_ns)
        headers = frame.headers or {}
        error = service_error((name, values[0]) for name, values in headers.items() if values)
        if error:
            row.errors += 1
            row.last_error = frame.secrets.masked(error.text or "") or None
            row.last_error_code = error.code
        return False

    def close(self, anomaly: str | None) -> Iterable[Record]:
        """Ends the wait for the answer to one of the requests."""
        if anomaly:
            self.row.anomalies = [anomaly]
        return ()


class _Instances:
    """The instances that a session shows. It is the `Question` of each request to `$SRV`, which several of
    them may answer."""

    held_bytes = 0

    def __init__(self) -> None:
        self.by_id: dict[str, _Instance] = {}
        self.has_forgotten = False

    def has_room(self, kept: Mapping[_K, object], key: _K, limit: int) -> bool:
        """Whether this key may be kept within the limit; if not, the rows get the anomaly `forgotten`."""
        if key in kept or len(kept) < limit:
            return True
        self.has_forgotten = True
        return False

    def instance(self, key: str, service: str, account: str | None) -> _Instance | None:
        """The instance with this id, which is added if it is new; None if there are too many."""
        if not self.has_room(self.by_id, key, _INSTANCES):
            return None
        return self.by_id.setdefault(key, _Instance(service, account))

    def answer(self, frame: LayerFrame, nobody: bool, latency_ns: int | None) -> bool:
        """Reads what an instance says of itself."""
        read = read_object(frame.content)
        if read is None or not text(read, "type").startswith(_TYPE):
            return True
        name, key = text(read, "name"), text(read, "id")
        instance = self.instance(key, name, frame.account) if name else None
        if instance is None:
            return True
        instance.service = name
        instance.version = text(read, "version") or instance.version
        listed = read.get("endpoints")
        for item in listed if isinstance(listed, list) else ():
            if isinstance(item, dict):
                endpoint: Object = item
                subject = text(endpoint, "subject")
                if subject and self.has_room(instance.endpoints, subject, _ENDPOINTS):
                    group = text(endpoint, "queue_group")
                    instance.endpoints[subject] = _ServiceEndpoint(
                        text(endpoint, "name"), subject, group
                    )
        return True

    def close(self, anomaly: str | None) -> Iterable[Record]:
        """Returns no rows: they come at the end of the session."""
        return ()


class _KnownEndpoint(NamedTuple):
    """An endpoint. `key` is the id of its instance; `place` is its position among all endpoints."""

    place: int
    key: str
    instance: _Instance
    endpoint: _ServiceEndpoint


class _Described:
    """The endpoints of all instances by subject."""

    def __init__(self, instances: Mapping[str, _Instance]) -> None:
        self._by_subject: dict[str, list[_KnownEndpoint]] = {}
        self._wild: list[tuple[bytes, _KnownEndpoint]] = []
        place = count()
        for key, instance in instances.items():
            for pattern, endpoint in instance.endpoints.items():
                known = _KnownEndpoint(next(place), key, instance, endpoint)
                self._by_subject.setdefault(pattern, []).append(known)
                if ("*" in pattern or ">" in pattern) and len(self._wild) < _WILD:
                    self._wild.append((pattern.encode("utf-8", "replace"), known))

    def by(self, subject: str) -> list[_KnownEndpoint]:
        """The endpoints that serve a subject according to their description, in order."""
        wire = subject.encode("utf-8", "replace")
        found = [
            known
            for pattern, known in self._wild
            if known.endpoint.subject != subject and matches(pattern, wire)
        ]
        return sorted((*found, *self._by_subject.get(subject, ())), key=attrgetter("place"))


class Services:
    """The state of one session: its own endpoints, and the services that it calls."""

    def __init__(self) -> None:
        self._instances = _Instances()
        self._own: dict[str, None] = {}  # ids of instances on this connection
        self._sids: dict[str, _Calls] = {}  # of their endpoints, by sid
        self._served: dict[tuple[str, str], _Calls] = {}
        self._asked = Recent[_Subject, _Calls](_SUBJECTS)
        self._exchanges = Exchanges[_Calls | _Instances]()

    def add(self, frame: LayerFrame) -> Iterable[Record]:
        """Reads the next frame. All rows come from `finish`."""
        op = frame.op
        if op == "SUB":
            self._subscribe(frame)
        elif op == "UNSUB":
            if not frame.max_msgs:
                self._sids.pop(frame.sid or "", None)
        else:
            if self._exchanges.awaits(frame):
                self._exchanges.answered(frame)
            elif frame.reply:
                to_client = op == "MSG" or (op == "HMSG" and frame.kind not in LINKS)
                if self._sids or not to_client or (frame.subject or "").startswith("$"):
                    self._request(frame, to_client)
        return ()

    def finish(self) -> Iterator[Record]:
        """The rows."""
        for calls in self._served.values():
            self._describe(calls.row)
            yield self._done(calls)
        described = _Described(self._instances.by_id)
        for (account, subject), calls in self._asked.items():
            known = [each for each in described.by(subject) if each.instance.account == account]
            if known or calls.row.last_error or calls.row.last_error_code:
                yield self._done(self._named(calls, known))

    def _subscribe(self, frame: LayerFrame) -> None:
        subject = frame.subject or ""
        if subject.startswith(_DISCOVERY):
            tokens = subject.split(".")
            if len(tokens) == 4 and self._instances.instance(tokens[3], tokens[2], None):
                self._own.setdefault(tokens[3])
            return
        if not self._own or subject.startswith("_INBOX."):
            return
        instance = next(reversed(self._own))
        if not self._instances.has_room(self._served, (instance, subject), _SUBJECTS):
            return
        row = ServiceRecord(**head(frame), side="service", subject=subject, last_ns=frame.ts_ns)
        row.service, row.instance = self._instances.by_id[instance].service, instance
        row.queue_group = frame.queue
        calls = self._served.setdefault((instance, subject), _Calls(row))
        if not self._instances.has_room(self._sids, frame.sid or "", _SIDS):
            del self._sids[next(iter(self._sids))]
        self._sids[frame.sid or ""] = calls

    def _request(self, frame: LayerFrame, to_client: bool) -> None:
        """Counts a message that asks for a reply."""
        subject = frame.subject or ""
        if subject.startswith(_DISCOVERY):
            self._exchanges.ask(frame, self._instances)
        if subject.startswith("$"):
            return
        calls = self._sids.get(frame.sid or "") if to_client else self._calls_to(frame)
        if calls is None:
            return
        row = calls.row
        row.requests += 1
        row.request_bytes += frame.payload_bytes or 0
        row.last_ns = frame.ts_ns
        self._exchanges.ask(frame, calls)

    def _calls_to(self, frame: LayerFrame) -> _Calls:
        """The calls on a subject to which this connection sends requests."""
        subject = frame.subject or ""
        key = frame.account, subject
        found = self._asked.get(key)
        if found is None:
            found = _Calls(
                ServiceRecord(**head(frame), side="client", subject=subject, last_ns=frame.ts_ns)
            )
            if self._asked.put(key, found):
                self._instances.has_forgotten = True
        return found

    def _describe(self, row: ServiceRecord) -> None:
        """Completes the row of an endpoint on this connection. If exactly one instance describes the
        endpoint, it belongs to that instance."""
        says = [key for key in self._own if row.subject in self._instances.by_id[key].endpoints]
        if len(says) == 1:
            row.instance = says[0]
        instance = self._instances.by_id[row.instance or ""]
        row.service, row.version = instance.service, instance.version or None
        described = instance.endpoints.get(row.subject)
        row.endpoint = described.name or None if described else None

    def _named(self, calls: _Calls, known: list[_KnownEndpoint]) -> _Calls:
        """Adds the service that the requests go to, if all endpoints that match the subject agree on it."""
        row = calls.row
        services = {each.instance.service for each in known}
        if len(services) == 1:
            instance, endpoint = known[-1].instance, known[-1].endpoint
            row.service, row.version = instance.service, instance.version or None
            row.endpoint, row.queue_group = endpoint.name or None, endpoint.queue_group or None
            row.instances = len({each.key for each in known})
        return calls

    def _done(self, calls: _Calls) -> ServiceRecord:
        row, latencies = calls.row, calls.latencies
        row.latency_median_ns, row.latency_p99_ns = latencies.quantile(50), latencies.quantile(99)
        row.latency_max_ns = latencies.largest
        if self._instances.has_forgotten:
            row.anomalies = [Anomaly.FORGOTTEN.value]
        return row


SERVICES = Table(
    name="services",
    singular="endpoint",
    summary="List endpoints of services: requests, errors, latencies.",
    row=ServiceRecord,
    time="ts_ns",
    position=attrgetter("ts_ns", "session", "number", "subject"),
    text=text_columns(
        ServiceRecord,
        "session ts_ns side service instance version endpoint subject requests errors request_bytes"
        " reply_bytes latency_median_ns latency_p99_ns latency_max_ns last_error",
    ),
    layer=ApplicationLayer(MESSAGES_AND_INTEREST, Services),
    payloads=True,
    at_end=True,
)
