"""Responses of services: written as ADR-32 says, read as others write them."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest

from natsync.micro import EndpointInfo, EndpointStats, InvalidResponseError, ServiceInfo
from natsync.micro.responses import (
    ServicePing,
    ServiceStats,
    read_response,
    to_json,
)

STARTED = datetime(2026, 11, 22, 7, 17, 45, 120_000, timezone.utc)
PING = ServicePing("math", "A1", "1.0.0", {"region": "eu"})
INFO = ServiceInfo(
    "math", "A1", "1.0.0", "adds", {}, (EndpointInfo("add", "math.add", "q", {"schema": "{}"}),)
)
STATS = ServiceStats(
    "math",
    "A1",
    "1.0.0",
    STARTED,
    {},
    (EndpointStats("add", "math.add", "q", 3, 1, "400:no number", 30, 10, {"cache": 7}),),
)
BASE = {"name": "math", "id": "A1", "version": "1.0.0"}


def test_the_fields_of_adr_32_are_written() -> None:
    assert json.loads(to_json(PING)) == {
        "type": "io.nats.micro.v1.ping_response",
        **BASE,
        "metadata": {"region": "eu"},
    }
    assert json.loads(to_json(INFO)) == {
        "type": "io.nats.micro.v1.info_response",
        **BASE,
        "metadata": {},
        "description": "adds",
        "endpoints": [
            {
                "name": "add",
                "subject": "math.add",
                "queue_group": "q",
                "metadata": {"schema": "{}"},
            }
        ],
    }
    assert json.loads(to_json(STATS)) == {
        "type": "io.nats.micro.v1.stats_response",
        **BASE,
        "metadata": {},
        "started": "2026-11-22T07:17:45.120000Z",
        "endpoints": [
            {
                "name": "add",
                "subject": "math.add",
                "queue_group": "q",
                "num_requests": 3,
                "num_errors": 1,
                "last_error": "400:no number",
                "processing_time": 30,
                "average_processing_time": 10,
                "data": {"cache": 7},
            }
        ],
    }


def test_what_is_written_is_read() -> None:
    assert read_response(ServicePing, "s", to_json(PING), rtt=0.5) == PING
    assert read_response(ServicePing, "s", to_json(PING), rtt=0.5).rtt == 0.5
    assert read_response(ServiceInfo, "s", to_json(INFO)) == INFO
    assert read_response(ServiceStats, "s", to_json(STATS)) == STATS


def test_null_and_absent_fields_are_read_as_others_write_them() -> None:
    stats = {
        **BASE,
        "type": "io.nats.micro.v1.stats_response",
        "metadata": None,
        "started": "2026-11-22T08:17:45.123456789+01:00",
        "endpoints": [{"name": "add", "subject": "add", "data": None, "new": 1}],
    }
    found = read_response(ServiceStats, "s", json.dumps(stats).encode())
    assert found.started == datetime(2026, 11, 22, 7, 17, 45, 123_456, timezone.utc)
    assert found.metadata == {} and found.endpoints == (
        EndpointStats("add", "add", extra={"new": 1}),
    )
    info = {**BASE, "type": "io.nats.micro.v1.info_response", "endpoints": None}
    assert read_response(ServiceInfo, "s", json.dumps(info).encode()).endpoints == ()


@pytest.mark.parametrize(
    "wrong, reason",
    [
        (b"", "0 bytes that are not JSON"),
        (b"[" * 100_000, "100000 bytes that are not JSON"),
        (b"[]", "JSON that is not an object"),
        (b'{"type": "io.nats.micro.v1.info_response"}', "type is not io.nats.micro.v1.stats"),
        ({"name": 7}, "name of ServiceStats is wrong"),
        ({"metadata": {"a": 1}}, "metadata of ServiceStats is wrong"),
        ({"started": "yesterday"}, "started of ServiceStats is wrong"),
        ({"started": "2026-13-01T00:00:00Z"}, "started of ServiceStats is wrong"),
        ({"started": "0001-01-01T00:00:00+23:59"}, "started of ServiceStats is wrong"),
        ({"endpoints": {}}, "endpoints of ServiceStats is wrong"),
        ({"endpoints": [7]}, "no EndpointStats, but int"),
        (
            {"endpoints": [{"name": "a", "subject": 1}]},
            "subject of EndpointStats is wrong",
        ),
        (
            {"endpoints": [{"name": "a", "subject": "a", "num_requests": True}]},
            "num_requests of EndpointStats is wrong",
        ),
    ],
)
def test_what_is_wrong_is_named(wrong: bytes | dict[str, object], reason: str) -> None:
    if isinstance(wrong, dict):
        good = json.loads(to_json(STATS))
        wrong = json.dumps({**good, **wrong}).encode()
    with pytest.raises(InvalidResponseError) as caught:
        read_response(ServiceStats, "$SRV.STATS", wrong)
    assert str(caught.value).startswith(f"invalid response on $SRV.STATS: {reason}")
