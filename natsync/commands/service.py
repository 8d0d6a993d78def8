"""`natsync service`: finds, describes and measures services."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping

from ..client import Client
from ..micro import ServiceClient, ServiceInfo, ServicePing, ServiceStats
from ..micro.naming import check_name
from ..micro.responses import to_json
from .arguments import Commands, add_json, seconds
from .bucket_options import checked
from .jetstream_output import print_fields
from .output import print_json, print_line, print_table
from .reporting import Reporter

__all__ = ["add_commands"]

DONE, FAILED = 0, 1


def add_commands(command: Commands) -> None:
    """Adds the commands of the group."""
    for name, run, text in (
        ("ls", ls, "list services with the number of their instances"),
        ("ping", ping, "list instances with their round trips"),
        ("info", info, "show instances and their endpoints"),
        ("stats", stats, "show the statistics of endpoints"),
    ):
        added = command(name, run, text, 2.0)
        if name != "ls":
            added.add_argument(
                "name", nargs="?", type=checked(check_name), help="only this service"
            )
            added.add_argument("id", nargs="?", default="", help="only this instance")
        added.add_argument(
            "--stall",
            type=seconds,
            default=0.5,
            metavar="SECONDS",
            help="stop when no answer arrives for SECONDS (0.5)",
        )
        added.add_argument(
            "--prefix",
            default="$SRV",
            metavar="SUBJECT",
            help="the subject prefix of services ($SRV)",
        )
        add_json(added)


def ls(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Lists services."""
    versions: dict[str, list[str]] = {}
    for found in _client(nc, args).ping():
        versions.setdefault(found.name, []).append(found.version)
    if args.json:
        for name, of in sorted(versions.items()):
            print_json({"name": name, "instances": len(of), "versions": sorted({*of})})
        return DONE
    rows = [(name, len(of), ", ".join(sorted({*of}))) for name, of in sorted(versions.items())]
    print_table(("SERVICE", "INSTANCES", "VERSIONS"), rows)
    return DONE


def ping(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Lists instances."""
    found: list[ServicePing] = _client(nc, args).ping(args.name or "", args.id)
    if args.json:
        for one in found:
            print_fields(
                name=one.name, id=one.id, version=one.version, rtt_ns=int((one.rtt or 0) * 1e9)
            )
    else:
        rows = [(one.name, one.id, one.version, f"{(one.rtt or 0) * 1e3:.3f} ms") for one in found]
        print_table(("SERVICE", "ID", "VERSION", "RTT"), rows)
    return _missing_service_status(args, reporter, len(found))


def info(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Shows instances."""
    found: list[ServiceInfo] = _client(nc, args).info(args.name or "", args.id)
    for one in found:
        if args.json:
            print_json(json.loads(to_json(one)))
            continue
        print_line(f"{one.name} {one.version} {one.id} {one.description}".rstrip())
        _print_metadata("  ", one.metadata)
        for endpoint in one.endpoints:
            queue = f" queue {endpoint.queue_group}" if endpoint.queue_group else ""
            print_line(f"  {endpoint.name}: {endpoint.subject}{queue}")
            _print_metadata("    ", endpoint.metadata)
    return _missing_service_status(args, reporter, len(found))


def stats(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Shows the statistics of endpoints."""
    found: list[ServiceStats] = _client(nc, args).stats(args.name or "", args.id)
    if args.json:
        for one in found:
            print_json(json.loads(to_json(one)))
        return _missing_service_status(args, reporter, len(found))
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
    titles = ("REQUESTS", "ERRORS", "AVERAGE", "SERVICE", "ID", "ENDPOINT", "LAST ERROR")
    print_table(titles, rows)
    return _missing_service_status(args, reporter, len(found))


def _client(nc: Client, args: argparse.Namespace) -> ServiceClient:
    return ServiceClient(nc, timeout=args.timeout, stall=args.stall, prefix=args.prefix)


def _missing_service_status(args: argparse.Namespace, reporter: Reporter, number: int) -> int:
    """Returns the exit status. If a service was asked for by name and none answered, that is a failure."""
    if number or not args.name:
        return DONE
    reporter.tell(f"no service {args.name} {args.id}".rstrip())
    return FAILED


def _print_metadata(indent: str, metadata: Mapping[str, str]) -> None:
    for name, value in sorted(metadata.items()):
        print_line(f"{indent}{name}={value}")
