"""Responses of services to PING, INFO and STATS, and their JSON (ADR-32, "Discovery and Status").

Reading is lenient where implementations differ: metadata, endpoints and data may be null or absent
(nats.py writes null, nats.go leaves data out), and unknown fields are ignored. A value of the wrong
type raises `InvalidResponseError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TypeVar

from .errors import InvalidResponseError
from .naming import Metadata

__all__ = ["EndpointInfo", "EndpointStats", "ServiceInfo", "ServicePing", "ServiceStats", "to_json"]

_T = TypeVar("_T")
# RFC 3339; Go writes up to nine fractional digits of a second, of which datetime keeps six.
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True)
class ServicePing:
    """An instance of a service. `rtt` is the round trip time in seconds, if `ServiceClient`
    measured it."""

    name: str
    id: str
    version: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    rtt: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class EndpointInfo:
    """Where an endpoint listens. An empty `queue_group` means none: every instance gets every
    request."""

    name: str
    subject: str
    queue_group: str
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ServiceInfo:
    """An instance of a service with its endpoints, including those that were added later."""

    name: str
    id: str
    version: str
    description: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    endpoints: tuple[EndpointInfo, ...] = ()


@dataclass(frozen=True)
class EndpointStats:
    """Counts of one endpoint since the start or the last reset; times are nanoseconds.

    `last_error` is empty if there was none. `data` is what the service's stats handler returned.
    """

    name: str
    subject: str
    queue_group: str
    num_requests: int = 0
    num_errors: int = 0
    last_error: str = ""
    processing_time: int = 0
    average_processing_time: int = 0
    data: object = None


@dataclass(frozen=True)
class ServiceStats:
    """Counts of an instance of a service; `started` is in UTC."""

    name: str
    id: str
    version: str
    started: datetime
    metadata: Mapping[str, str] = field(default_factory=dict)
    endpoints: tuple[EndpointStats, ...] = ()


Response = ServicePing | ServiceInfo | ServiceStats


def to_json(response: Response) -> bytes:
    """Returns the response in the form of ADR-32. Raises TypeError or ValueError if JSON cannot
    represent `data`."""
    fields: dict[str, object] = {
        "type": f"io.nats.micro.v1.{_TYPES[type(response)]}_response",
        "name": response.name,
        "id": response.id,
        "version": response.version,
        "metadata": dict(response.metadata),
    }
    if isinstance(response, ServiceInfo):
        fields["description"] = response.description
        fields["endpoints"] = [
            {**vars(endpoint), "metadata": dict(endpoint.metadata)}
            for endpoint in response.endpoints
        ]
    elif isinstance(response, ServiceStats):
        # nats.py requires a fraction of one to six digits.
        fields["started"] = response.started.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        # nats.py does not read an endpoint without `data`.
        fields["endpoints"] = [vars(endpoint) for endpoint in response.endpoints]
    return json.dumps(fields).encode()


_TYPES: dict[type, str] = {ServicePing: "ping", ServiceInfo: "info", ServiceStats: "stats"}


class Reader:
    """Reads fields of one JSON response; every error names its field."""

    def __init__(self, subject: str, fields: object, where: str = "") -> None:
        self._subject = subject
        self._where = where
        if not isinstance(fields, dict):
            what = where.rstrip(".") or "the response"
            raise InvalidResponseError(subject, f"{what} is not a JSON object")
        self._fields: dict[str, object] = fields

    def get(self, name: str, kind: type[_T], default: _T | None = None) -> _T:
        """Returns the field `name`, or `default`, if there is one, when the field is absent or
        null."""
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, kind) or isinstance(value, bool):
            reason = f"{self._where}{name} is not of the type {kind.__name__}"
            raise InvalidResponseError(self._subject, reason)
        return value

    def any(self, name: str) -> object:
        """Returns the field `name` as it is."""
        return self._fields.get(name)

    def metadata(self) -> Mapping[str, str]:
        found = self.get("metadata", dict, {})
        if not all(isinstance(value, str) for value in found.values()):
            raise InvalidResponseError(
                self._subject, f"{self._where}metadata has values that are not str"
            )
        return Metadata(found)

    def time(self, name: str) -> datetime:
        text = self.get(name, str)
        found = _TIME.fullmatch(text)
        try:
            if not found:
                raise ValueError
            seconds, fraction, zone = found.groups()
            zone = "+00:00" if zone == "Z" else zone
            micros = (fraction or "").ljust(6, "0")[:6]
            return datetime.fromisoformat(f"{seconds}.{micros}{zone}").astimezone(timezone.utc)
        except (ValueError, OverflowError):
            raise InvalidResponseError(self._subject, f"{name} is not an RFC 3339 time") from None

    def endpoints(self) -> list[Reader]:
        found = self.get("endpoints", list, [])
        return [
            Reader(self._subject, fields, f"endpoints[{number}].")
            for number, fields in enumerate(found)
        ]


def _read(subject: str, data: bytes, kind: str) -> Reader:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        raise InvalidResponseError(subject, "the response is not JSON") from None
    reader = Reader(subject, fields)
    wanted = f"io.nats.micro.v1.{kind}_response"
    if reader.get("type", str) != wanted:
        raise InvalidResponseError(subject, f"type is not {wanted}")
    return reader


def read_ping(subject: str, data: bytes, rtt: float | None = None) -> ServicePing:
    """Reads a response on `subject` that arrived `rtt` seconds after the request."""
    read = _read(subject, data, "ping")
    name, id, version = read.get("name", str), read.get("id", str), read.get("version", str)
    return ServicePing(name, id, version, read.metadata(), rtt)


def read_info(subject: str, data: bytes) -> ServiceInfo:
    """Reads a response on `subject`."""
    read = _read(subject, data, "info")
    return ServiceInfo(
        read.get("name", str),
        read.get("id", str),
        read.get("version", str),
        read.get("description", str, ""),
        read.metadata(),
        tuple(
            EndpointInfo(
                endpoint.get("name", str),
                endpoint.get("subject", str),
                endpoint.get("queue_group", str, ""),
                endpoint.metadata(),
            )
            for endpoint in read.endpoints()
        ),
    )


def read_stats(subject: str, data: bytes) -> ServiceStats:
    """Reads a response on `subject`."""
    read = _read(subject, data, "stats")
    return ServiceStats(
        read.get("name", str),
        read.get("id", str),
        read.get("version", str),
        read.time("started"),
        read.metadata(),
        tuple(
            EndpointStats(
                endpoint.get("name", str),
                endpoint.get("subject", str),
                endpoint.get("queue_group", str, ""),
                endpoint.get("num_requests", int, 0),
                endpoint.get("num_errors", int, 0),
                endpoint.get("last_error", str, ""),
                endpoint.get("processing_time", int, 0),
                endpoint.get("average_processing_time", int, 0),
                endpoint.any("data"),
            )
            for endpoint in read.endpoints()
        ),
    )
