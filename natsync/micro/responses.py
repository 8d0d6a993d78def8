"""Responses of services to PING, INFO and STATS, and their JSON (ADR-32, "Discovery and Status").

Reading is lenient where implementations differ: metadata, endpoints and data may be null or absent
(nats.py writes null, nats.go leaves data out), and unknown fields are kept in `extra`. A value of the
wrong type raises `InvalidResponseError`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, TypeVar

from .._json import JSONObject, decode_object, unsent
from ..errors import InvalidResponseError

__all__ = ["EndpointInfo", "EndpointStats", "ServiceInfo", "ServicePing", "ServiceStats", "to_json"]


@dataclass(frozen=True, slots=True, repr=False)
class ServicePing(JSONObject):
    """An instance of a service. `rtt` is the round trip time in seconds, if `ServiceClient`
    measured it."""

    _strict: ClassVar[bool] = True

    name: str
    id: str
    version: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    rtt: float | None = unsent(None, compare=False)


@dataclass(frozen=True, slots=True, repr=False)
class EndpointInfo(JSONObject):
    """Where an endpoint listens. An empty `queue_group` means none: every instance gets every
    request."""

    _strict: ClassVar[bool] = True

    name: str
    subject: str
    queue_group: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class ServiceInfo(JSONObject):
    """An instance of a service with its endpoints, including those that were added later."""

    _strict: ClassVar[bool] = True

    name: str
    id: str
    version: str
    description: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    endpoints: Sequence[EndpointInfo] = ()


@dataclass(frozen=True, slots=True, repr=False)
class EndpointStats(JSONObject):
    """Counts of one endpoint since the start or the last reset; times are nanoseconds.

    `last_error` is empty if there was none. `data` is what the service's stats handler returned.
    """

    _strict: ClassVar[bool] = True

    name: str
    subject: str
    queue_group: str = ""
    num_requests: int = 0
    num_errors: int = 0
    last_error: str = ""
    processing_time: int = 0
    average_processing_time: int = 0
    data: object = None


@dataclass(frozen=True, slots=True, repr=False)
class ServiceStats(JSONObject):
    """Counts of an instance of a service; `started` is in UTC."""

    _strict: ClassVar[bool] = True

    name: str
    id: str
    version: str
    started: datetime
    metadata: Mapping[str, str] = field(default_factory=dict)
    endpoints: Sequence[EndpointStats] = ()


Response = ServicePing | ServiceInfo | ServiceStats
_R = TypeVar("_R", ServicePing, ServiceInfo, ServiceStats)

_TYPES: dict[type, str] = {
    ServicePing: "io.nats.micro.v1.ping_response",
    ServiceInfo: "io.nats.micro.v1.info_response",
    ServiceStats: "io.nats.micro.v1.stats_response",
}


def to_json(response: Response) -> bytes:
    """Returns the response in the form of ADR-32. Raises TypeError or ValueError if JSON cannot
    represent `data`."""
    # Complete, since nats.py does not read an endpoint without `data`.
    fields = {"type": _TYPES[type(response)], **response.to_json(complete=True)}
    if isinstance(response, ServiceStats):
        # nats.py requires a fraction of one to six digits.
        fields["started"] = response.started.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return json.dumps(fields).encode()


def read_response(kind: type[_R], subject: str, data: bytes, **facts: object) -> _R:
    """Reads a response on `subject`; `facts` are those that it does not contain."""
    fields = decode_object(data, subject)
    if fields.pop("type", None) != _TYPES[kind]:
        raise InvalidResponseError(subject, f"type is not {_TYPES[kind]}")
    return kind.from_json(fields, subject, **facts)
