"""Errors of services and of those who call them; all are `natsync.Error`, exported from `natsync.micro`."""

from __future__ import annotations

from ..errors import Facts

__all__ = ["InvalidResponseError", "ServiceError", "ServiceStoppedError"]


class ServiceError(Facts):
    """A service answered a request with an error (ADR-32, "Error Handling").

    A handler raises it to answer so; `raise_for_error` raises it at the requester. `code` is a number, by
    convention one of HTTP (0 for a code that is not a number: then `description` begins with it),
    `description` is text for people, `data` the payload of the answer.
    """

    code: int
    description: str
    data: bytes = b""

    def __str__(self) -> str:
        return f"service error {self.code}: {self.description}"


class ServiceStoppedError(Facts):
    """An endpoint was added to a service that has stopped. `service` is its name."""

    service: str

    def __str__(self) -> str:
        return f"service {self.service} has stopped"


class InvalidResponseError(Facts):
    """A response to a PING, INFO or STATS request on `subject` that is not what ADR-32 says, and why.

    `others` are the good responses to the same request.
    """

    subject: str
    reason: str
    others: tuple[object, ...] = ()

    def __str__(self) -> str:
        return f"invalid response to {self.subject}: {self.reason}"
