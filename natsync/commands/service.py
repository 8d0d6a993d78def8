"""`natsync service`: finds, describes and measures services."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ..micro import ServiceClient, ServiceInfo
from ..micro.naming import check_name
from ..micro.responses import Response, to_json
from .command import DONE, FAILED, Group, Run
from .options import Function, argument, option
from .output import print_json, print_line, print_table
from .values import checked, seconds

__all__ = ["service"]

_name_argument = argument("name", "Only this service.", checked(check_name), required=False)
_id_argument = argument("id", "Only this instance.", default="")
_stall_option = option(
    "--stall SECONDS", "Stop when no answer arrives for SECONDS (0.5).", seconds, default=0.5
)
_prefix_option = option(
    "--prefix SUBJECT", "The subject prefix of services ($SRV).", default="$SRV"
)

service = Group("service")


def _of_services(function: Function) -> Function:
    return _name_argument(_id_argument(_stall_option(_prefix_option(function))))


def _client(run: Run, stall: float, prefix: str) -> ServiceClient:
    return ServiceClient(run.nc, timeout=run.timeout, stall=stall, prefix=prefix)


def _fields(response: Response) -> object:
    return json.loads(to_json(response))


@service.command("ls", timeout=2.0)
@_stall_option
@_prefix_option
def ls(run: Run, stall: float, prefix: str) -> None:
    """List services with the number of their instances."""
    versions: dict[str, list[str]] = {}
    for found in _client(run, stall, prefix).ping():
        versions.setdefault(found.name, []).append(found.version)
    run.table(
        ("SERVICE", "INSTANCES", "VERSIONS"),
        [(name, len(of), sorted({*of})) for name, of in sorted(versions.items())],
        lambda found: (*found[:2], ", ".join(found[2])),
        lambda found: dict(zip(("name", "instances", "versions"), found)),
    )


@service.command("ping", timeout=2.0)
@_of_services
def ping(run: Run, name: str | None, id: str, stall: float, prefix: str) -> int:
    """List instances with their round trips."""
    found = _client(run, stall, prefix).ping(name or "", id)
    run.table(
        ("SERVICE", "ID", "VERSION", "RTT"),
        found,
        lambda one: (one.name, one.id, one.version, f"{(one.rtt or 0) * 1e3:.3f} ms"),
        lambda one: {
            "name": one.name,
            "id": one.id,
            "version": one.version,
            "rtt_ns": int((one.rtt or 0) * 1e9),
        },
    )
    return _status(run, name, id, found)


@service.command("info", timeout=2.0)
@_of_services
def info(run: Run, name: str | None, id: str, stall: float, prefix: str) -> int:
    """Show instances and their endpoints."""
    found = _client(run, stall, prefix).info(name or "", id)
    for one in found:
        if run.json:
            print_json(_fields(one))
        else:
            _print_info(one)
    return _status(run, name, id, found)


def _print_info(one: ServiceInfo) -> None:
    print_line(f"{one.name} {one.version} {one.id} {one.description}".rstrip())
    _print_metadata("  ", one.metadata)
    for endpoint in one.endpoints:
        queue = f" queue {endpoint.queue_group}" if endpoint.queue_group else ""
        print_line(f"  {endpoint.name}: {endpoint.subject}{queue}")
        _print_metadata("    ", endpoint.metadata)


@service.command("stats", timeout=2.0)
@_of_services
def stats(run: Run, name: str | None, id: str, stall: float, prefix: str) -> int:
    """Show the statistics of endpoints."""
    found = _client(run, stall, prefix).stats(name or "", id)
    if run.json:
        for one in found:
            print_json(_fields(one))
        return _status(run, name, id, found)
    titles = ("REQUESTS", "ERRORS", "AVERAGE", "SERVICE", "ID", "ENDPOINT", "LAST ERROR")
    rows = [
        (
            endpoint.num_requests,
            endpoint.num_errors,
            f"{endpoint.average_processing_time / 1e6:.3f} ms",
            one.name,
            one.id,
            endpoint.name,
            endpoint.last_error,
        )
        for one in found
        for endpoint in one.endpoints
    ]
    print_table(titles, rows)
    return _status(run, name, id, found)


def _status(run: Run, name: str | None, id: str, found: Sequence[object]) -> int:
    """Returns the exit status. If a service was asked for by name and none answered, that is a failure."""
    if found or not name:
        return DONE
    run.reporter.tell(f"no service {name} {id}".rstrip())
    return FAILED


def _print_metadata(indent: str, metadata: Mapping[str, str]) -> None:
    for name, value in sorted(metadata.items()):
        print_line(f"{indent}{name}={value}")
