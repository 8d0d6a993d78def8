"""Names, versions and subjects of services: the rules of ADR-32, and where a service is asked about itself.

A name that breaks a rule is refused at the call, with an `OptionError` that names the argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum

from .._checks import check_text
from ..errors import OptionError
from ..message import to_wire
from ..protocol import check_publish, check_queue, check_subscribe

__all__ = [
    "Metadata",
    "PREFIX",
    "Verb",
    "check_endpoint_subject",
    "check_group",
    "check_name",
    "check_queue_group",
    "check_version",
    "control_subject",
    "read_metadata",
]

PREFIX = "$SRV"
"""The first token of the subjects on which services are asked about themselves."""


class Metadata(Mapping[str, str]):
    """Texts about a service or an endpoint, which nobody changes (ADR-32). Can be pickled and copied, which a
    `MappingProxyType` cannot."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = dict(texts)

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return repr(self._texts)


_NAME = re.compile(r"[A-Za-z0-9_-]+")
# The expression of semver.org ("Is there a suggested regular expression to check a SemVer string?").
_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


class Verb(Enum):
    """The requests that every service answers about itself."""

    PING = "PING"
    INFO = "INFO"
    STATS = "STATS"


def control_subject(verb: Verb, name: str = "", id: str = "", prefix: str = PREFIX) -> str:
    """The subject that asks all services, those of one name, or one instance. An id needs the name."""
    if id and not name:
        raise OptionError("id", "needs the name of the service")
    return ".".join(filter(None, (prefix, verb.value, name, id)))


def check_name(name: str) -> str:
    """Returns `name`, of a service or an endpoint."""
    check_text(name=name)
    if not _NAME.fullmatch(name):
        raise OptionError(
            "name",
            f"invalid name {name!r}: it may have letters A-Z and a-z, digits, '-' and '_' only",
        )
    return name


def check_version(version: str) -> None:
    """For the version of a service, which is a semantic version: 1.0.0, 2.1.3-rc.1."""
    check_text(version=version)
    if not _VERSION.fullmatch(version):
        raise OptionError("version", f"{version!r} is not a semantic version such as 1.0.0")


def check_queue_group(queue_group: str | None) -> None:
    """For queue groups: None inherits one, the empty string is not a queue group."""
    if queue_group is not None:
        check_text(queue_group=queue_group)
        if queue_group:
            check_queue(to_wire(queue_group))


def check_group(name: str) -> None:
    """For the subject that a group puts before those of its endpoints; it may be empty."""
    check_text(name=name)
    if name:
        check_publish(to_wire(name), "group")


def check_endpoint_subject(subject: str) -> None:
    """For the whole subject of an endpoint, its groups included. It may have wildcards."""
    check_text(subject=subject)
    check_subscribe(to_wire(subject))
    if subject.split(".")[0] == PREFIX:
        raise OptionError("subject", f"{subject!r} begins with {PREFIX}, which is reserved")


def read_metadata(metadata: Mapping[str, str] | None) -> Metadata:
    """A copy that nobody changes: ADR-32 has metadata immutable."""
    for name, value in (metadata or {}).items():
        if not (isinstance(name, str) and isinstance(value, str)):
            wrong = value if isinstance(name, str) else name
            raise TypeError(f"metadata maps str to str, not to {type(wrong).__name__}")
    return Metadata(metadata or {})
