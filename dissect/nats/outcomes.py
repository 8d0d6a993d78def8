"""The outcome of a request: the one place that says what counts as refused, unanswered or failed.

`sessions` pairs requests with their replies, and application layers pair calls with their answers; the
live view, the report and the tables show what they found. All of them ask here.
"""

from __future__ import annotations

import json

from natsync.protocol import ProtocolError, parse_headers

OK = "ok"
NO_RESPONDERS = "no_responders"
SERVICE_ERROR = "service_error"
API_ERROR = "api_error"
NO_REPLY = "no_reply"
REFUSED = "refused"

NO_RESPONDERS_STATUS = 503
"""The inline status with which a server reports that nobody listens."""
NO_MESSAGES_STATUS = 404
"""The inline status that ends a pull with `no_wait`: there are no messages."""
TIMEOUT_STATUS = 408
"""The inline status that ends a pull that has expired."""
_ERROR_STATUS = 400

# JetStream's error responses have a few hundred bytes. A larger payload is not an error.
_ERROR_BYTES = 16 << 10
_ERROR_HEAD = 512
_API_TYPE = "io.nats.jetstream.api."


def is_error_status(status: int | None) -> bool:
    """Whether an inline status, or the code of an answer, reports that something was not done."""
    return status is not None and status >= _ERROR_STATUS


def is_no_responders(status: int | None, payload_bytes: int | None) -> bool:
    """Whether a message with this inline status comes from the server, because nobody listens (ADR-4 of the
    NATS project; nats-server: sendNoRespondersError). It has no payload."""
    return status == NO_RESPONDERS_STATUS and not payload_bytes


def may_be_api_error(payload: bytes) -> bool:
    """Whether a payload may be an error of the JetStream API; `reply_outcome` needs only such payloads."""
    return (
        payload[:1] == b"{" and len(payload) <= _ERROR_BYTES and b'"error"' in payload[:_ERROR_HEAD]
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
    if b"nats-service-error" in headers.lower():
        try:
            fields = {name.lower(): value for name, value in parse_headers(headers).fields}
        except ProtocolError:
            fields = {}
        code = fields.get(b"nats-service-error-code", b"").strip()
        if b"nats-service-error" in fields or code:
            return SERVICE_ERROR, int(code) if code.isdigit() and len(code) < 10 else None
    if is_error_status(status) and status not in (NO_MESSAGES_STATUS, TIMEOUT_STATUS):
        return API_ERROR, status
    return _api_outcome(payload) if may_be_api_error(payload) else (OK, None)


def _api_outcome(payload: bytes) -> tuple[str, int | None]:
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return OK, None
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return OK, None
    code, specific = (
        number if type(number) is int and 0 < number < 1 << 31 else None
        for number in (error.get("code"), error.get("err_code"))
    )
    if specific is None and not str(value.get("type", "")).startswith(_API_TYPE):
        return OK, None  # JSON of an application
    return API_ERROR, specific or code
