"""Names, versions and subjects of services: the rules of ADR-32, and the subjects for queries about
a service.

A name that breaks a rule is refused at the call, with an `OptionError` that names the argument.
"""

from __future__ import annotations

import re
from enum import Enum

from .._checks import check_text, is_restricted
from ..errors import OptionError
from ..message import to_wire
from ..protocol import check_publish, check_queue, check_subscribe

__all__ = [
    "PREFIX",
    "Verb",
    "check_endpoint_subject",
    "check_group",
    "check_name",
    "check_queue_group",
    "check_version",
    "control_subject",
]

PREFIX = "$SRV"
"""The first token of the subjects for queries about services."""


# The regular expression of semver.org ("Is there a suggested regular expression to check a SemVer
# string?").
_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


class Verb(Enum):
    """The queries that every service answers."""

    PING = "PING"
    INFO = "INFO"
    STATS = "STATS"


def control_subject(verb: Verb, name: str = "", id: str = "", prefix: str = PREFIX) -> str:
    """Returns the subject that queries all services, those with one name, or one instance. An id
    needs the name."""
    check_text(name=name, id=id)
    if id and not name:
        raise OptionError("id", "needs the name of the service")
    return ".".join(filter(None, (prefix, verb.value, name, id)))


def check_name(name: str) -> str:
    """Checks and returns `name`, the name of a service or an endpoint."""
    check_text(name=name)
    if not is_restricted(name):
        raise OptionError(
            "name",
            f"invalid name {name!r}: it may have letters A-Z and a-z, digits, '-' and '_' only",
        )
    return name


def check_version(version: str) -> None:
    """Checks the version of a service, which is a semantic version: 1.0.0, 2.1.3-rc.1."""
    check_text(version=version)
    if not _VERSION.fullmatch(version):
        raise OptionError("version", f"{version!r} is not a semantic version such as 1.0.0")


def check_queue_group(queue_group: str | None) -> None:
    """Checks a queue group: None inherits the group, the empty string means no queue group."""
    if queue_group is not None:
        check_text(queue_group=queue_group)
        if queue_group:
            check_queue(to_wire(queue_group))


def check_group(name: str) -> None:
    """Checks the prefix that a group puts before the subjects of its endpoints; it may be empty."""
    check_text(name=name)
    if name:
        check_publish(to_wire(name), "group")


def check_endpoint_subject(subject: str) -> None:
    """Checks the full subject of an endpoint, including its groups. It may have wildcards."""
    check_text(subject=subject)
    check_subscribe(to_wire(subject))
    if subject.split(".")[0] == PREFIX:
        raise OptionError("subject", f"{subject!r} begins with {PREFIX}, which is reserved")
