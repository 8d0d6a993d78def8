"""Options of the commands for JetStream: the domain or the API prefix, and `--force`."""

from __future__ import annotations

import argparse

from ..client import Client
from ..errors import OptionError
from ..jetstream import JetStream
from .arguments import add_json

__all__ = ["DONE", "add_force", "add_jetstream", "add_which", "jetstream", "need_force"]

DONE = 0


def add_jetstream(added: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds `--domain`, `--api-prefix`, and `--json`, except to the commands `get` and `next`."""
    add_which(added)
    if not added.prog.endswith((" get", " next")):
        add_json(added)
    return added


def add_which(added: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds `--domain` and `--api-prefix`, which select the JetStream."""
    which = added.add_mutually_exclusive_group()
    which.add_argument("--domain", metavar="NAME", help="the JetStream domain")
    which.add_argument(
        "--api-prefix", metavar="SUBJECT", help="the subject prefix of an API of another account"
    )
    return added


def add_force(added: argparse.ArgumentParser) -> None:
    """Adds `--force`."""
    added.add_argument(
        "-f",
        "--force",
        action="store_true",
        help="do it; without this option, the command refuses, because it cannot be undone",
    )


def need_force(args: argparse.Namespace, doing: str) -> None:
    """Raises OptionError without `--force`."""
    if not args.force:
        raise OptionError("force", f"{doing} cannot be undone: repeat it with --force")


def jetstream(nc: Client, args: argparse.Namespace) -> JetStream:
    """Returns the JetStream context that the options select."""
    return nc.jetstream(args.domain, args.api_prefix, args.timeout)
