"""Options of key-value buckets and object stores, made from the fields of their configuration; and checks
of names on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TypeVar

from ..jetstream import StreamSource
from ..kv import KeyValueConfig
from ..object_store import ObjectStoreConfig
from .config_options import duration

__all__ = ["add_bucket_options", "checked", "read_bucket_options"]

_C = TypeVar("_C", KeyValueConfig, ObjectStoreConfig)


def checked(check: Callable[[str], str]) -> Callable[[str], str]:
    """Makes a type for argparse from a check that raises ValueError."""

    def convert(text: str) -> str:
        try:
            return check(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def add_bucket_options(
    added: argparse.ArgumentParser, cls: type[KeyValueConfig] | type[ObjectStoreConfig]
) -> None:
    """Adds an option for each field whose type an option can express."""
    group = added.add_argument_group("configuration", "Times are seconds, or 90s, 5m, 1h30m, 7d.")
    for item in fields(cls)[1:]:
        flag = f"--{item.name.replace('_', '-')}"
        match str(item.type):
            case "str":
                group.add_argument(flag, metavar="TEXT")
            case "int":
                group.add_argument(flag, type=int, metavar="N")
            case "float":
                group.add_argument(flag, type=duration, metavar="TIME")
            case "bool":
                group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
            case "StorageType":
                group.add_argument(flag, choices=("file", "memory"))
            case "StreamSource | None":
                group.add_argument(flag, metavar="BUCKET", help="be a copy of this bucket")
            case "Sequence[StreamSource]":
                group.add_argument(
                    flag, metavar="A,B", help="copy the keys of these buckets into this one"
                )
            case "Mapping[str, str]":
                group.add_argument(flag, action="append", type=_pair, metavar="NAME=VALUE")


def read_bucket_options(args: argparse.Namespace, config: _C) -> _C:
    """Returns `config`, changed by the options on the command line. Raises OptionError for invalid values."""
    changes = {
        item.name: getattr(args, item.name)
        for item in fields(config)[1:]
        if getattr(args, item.name, None) is not None
    }
    if "mirror" in changes:
        changes["mirror"] = StreamSource(changes["mirror"])
    if "sources" in changes:
        changes["sources"] = [StreamSource(name) for name in changes["sources"].split(",")]
    if "metadata" in changes:
        changes["metadata"] = dict(changes["metadata"])
    return replace(config, **changes)


def _pair(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not name or not mark:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE: {text}")
    return name, value
