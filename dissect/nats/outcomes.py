"""The outcome of a request: the one place that says what counts as refused, unanswered or failed.

`sessions` pairs requests with their replies, and application layers pair calls with their answers; the
live view, the report and the tables show what they found. All of them ask here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from natsync.protocol import ProtocolError, parse_headers

OK = "ok"
NO_RESPONDERS = "no_responders"
SERVICE_ERROR = "service_error"
API_ERROR = "api_error"
NO_REPLY = "no_reply"
REFUSED = "refused"

IDLE_HEARTBEAT_STATUS = 100
"""The inline status with which a consumer reports that it is alive while there are no messages (ADR-9), or
asks whether its messages arrive (flow control)."""
END_OF_BATCH_STATUS = 204
"""The inline status after the last message of a direct get of several messages (ADR-31)."""
NO_RESPONDERS_STATUS = 503
"""The inline status with which a server reports that nobody listens."""
NO_RESPONDERS_TEXT = "no responders"
"""The description of that status, which servers do not send."""
NO_MESSAGES_STATUS = 404
"""The inline status that ends a pull with `no_wait`, and the code of a get: there are no messages."""
TIMEOUT_STATUS = 408
"""The inline status that ends a pull that has expired."""
ERROR_STATUS = 400
"""The least status or code that reports that something was not done."""
# Statuses, and the texts of others, with which a server refuses a pull at once (server/consumer.go:
# processNextMsgRequest).
_PULL_REFUSALS = (400, 412)
_PULL_REFUSAL_TEXTS = (
    "Requests Pending",
    "Exceeded ",
    "Consumer is push based",
    "Nats-Pin-Id mismatch",
)

_SERVICE_ERROR = "nats-service-error"
_SERVICE_ERROR_CODE = "nats-service-error-code"

# JetStream's error responses have a few hundred bytes. A larger payload is not an error.
ERROR_BYTES = 16 << 10
ERROR_HEAD = 512
_API_TYPE = "io.nats.jetstream.api."


def is_error_status(status: int | None) -> bool:
    """Whether an inline status, or the code of an answer, reports that something was not done."""
    return status is not None and status >= ERROR_STATUS


def is_no_responders(status: int | None, payload_bytes: int | None) -> bool:
    """Whether a message with this inline status comes from the server, because nobody listens (ADR-4 of the
    NATS project; nats-server: sendNoRespondersError). It has no payload."""
    return status == NO_RESPONDERS_STATUS and not payload_bytes


def refuses_pull(status: int | None, status_text: str | None) -> bool:
    """Whether an inline status refuses a pull at once, so that it never waits for messages."""
    return status in _PULL_REFUSALS or (status_text or "").startswith(_PULL_REFUSAL_TEXTS)


class ServiceError(NamedTuple):
    """The error that a service reports in the headers of its reply (ADR-32); None for a header that is
    missing."""

    text: str | None
    code: str | None


def service_error(headers: Iterable[tuple[str, str]]) -> ServiceError | None:
    """The error of a service in the headers of a reply; None if they report none. The case of their names
    does not matter."""
    fields: dict[str, str] = {}
    for name, value in headers:
        fields.setdefault(name.lower(), value)
    error = ServiceError(fields.get(_SERVICE_ERROR), fields.get(_SERVICE_ERROR_CODE))
    return None if error == (None, None) else error


class ApiError(NamedTuple):
    """The member `error` of a JSON answer (ADR-1); None for a part that is missing."""

    code: int | None = None
    err_code: int | None = None
    description: str | None = None


def api_error(answer: dict[str, object]) -> ApiError:
    """The error that a JSON answer reports; without any part if it reports none."""
    error = answer.get("error")
    if isinstance(error, str):
        return ApiError(description=error)
    if not isinstance(error, dict):
        return ApiError()
    code, err_code, description = map(error.get, ("code", "err_code", "description"))
    return ApiError(
        _code(code), _code(err_code), description if isinstance(description, str) else None
    )


def _code(value: object) -> int | None:
    return value if type(value) is int and -(1 << 63) <= value < 1 << 64 else None


def may_be_api_error(payload: bytes) -> bool:
    """Whether a payload may be an error of the JetStream API; `reply_outcome` needs only such payloads."""
    return (
        payload[:1] == b"{" and len(payload) <= ERROR_BYTES and b'"error"' in payload[:ERROR_HEAD]
    )


def reply_outcome(
    status: int, headers: bytes, payload: bytes, payload_bytes: int
) -> tuple[str, int | None]:
    """The outcome of a request with this first reply, and its error code. `status` is the inline status, 0 if
    there is none; `payload` may be incomplete, `payload_bytes` is the size of the whole.

    Services report errors in headers (ADR-32: Nats-Service-Error, Nats-Service-Error-Code), the JetStream API
    in the field `error` of its JSON (ADR-1), and pulls by an inline status (ADR-13), of which 404 (no
    messages) and 408 (expired) are ordinary ends of a pull.
    """
    if is_no_responders(status, payload_bytes):
        return NO_RESPONDERS, None
    if _SERVICE_ERROR.encode() in headers.lower():
        try:
            fields = parse_headers(headers).fields
        except ProtocolError:
            fields = []
        error = service_error(
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in fields
        )
        if error:
            code = (error.code or "").strip()
            is_number = code.isascii() and code.isdigit() and len(code) < 10
            return SERVICE_ERROR, int(code) if is_number else None
    if is_error_status(status) and status not in (NO_MESSAGES_STATUS, TIMEOUT_STATUS):
        return API_ERROR, status
    return _api_outcome(payload) if may_be_api_error(payload) else (OK, None)


def _api_outcome(payload: bytes) -> tuple[str, int | None]:
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return OK, None
    if not isinstance(value, dict) or not isinstance(value.get("error"), dict):
        return OK, None
    code, specific = (
        number if number is not None and 0 < number < 1 << 31 else None
        for number in api_error(value)[:2]
    )
    if specific is None and not str(value.get("type", "")).startswith(_API_TYPE):
        return OK, None  # JSON of an application
    return API_ERROR, specific or code
