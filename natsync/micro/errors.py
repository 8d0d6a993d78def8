"""Errors of services and their clients; all are `natsync.Error`, exported from `natsync.micro`."""

from __future__ import annotations

from ..errors import Facts

__all__ = ["ServiceError", "ServiceStoppedError"]


class ServiceError(Facts):
    """A service answered a request with an error (ADR-32, "Error Handling").

    A handler raises it to answer with an error; `raise_for_error` raises it on the requester's
    side. `code` is a number, by convention an HTTP status (0 if the code is not a number:
    `description` then begins with it), `description` is text for people, and `data` is the payload
    of the response.
    """

    code: int
    description: str
    data: bytes = b""

    _text = "service error {code}: {description}"


class ServiceStoppedError(Facts):
    """An endpoint was added to a service that has stopped. `service` is its name."""

    service: str

    _text = "service {service} has stopped"
