"""The outcome of a request, by its first reply."""

from __future__ import annotations

import pytest

from dissect.nats.outcomes import (
    api_error,
    is_error_status,
    is_no_responders,
    refuses_pull,
    reply_outcome,
    service_error,
)

SERVICE = b"NATS/1.0\r\nNats-Service-Error: no\r\nNats-Service-Error-Code: 404\r\n\r\n"
REFUSED = b'{"type":"io.nats.jetstream.api.v1.stream_info_response","error":{"code":404,"err_code":10059}}'


@pytest.mark.parametrize(
    "status, headers, payload, outcome",
    [
        (0, b"", b"yes", ("ok", None)),
        (503, b"NATS/1.0 503\r\n\r\n", b"", ("no_responders", None)),
        (503, b"NATS/1.0 503 Later\r\n\r\n", b"a reply", ("api_error", 503)),
        (0, SERVICE, b"", ("service_error", 404)),
        (0, SERVICE.replace(b"404", b"x"), b"", ("service_error", None)),
        (409, b"NATS/1.0 409 Stop\r\n\r\n", b"", ("api_error", 409)),
        (404, b"NATS/1.0 404 No Messages\r\n\r\n", b"", ("ok", None)),
        (408, b"NATS/1.0 408 Request Timeout\r\n\r\n", b"", ("ok", None)),
        (0, b"", REFUSED, ("api_error", 10059)),
        (0, b"", b'{"error":{"code":404}}', ("ok", None)),
        (0, b"", b'{"error":', ("ok", None)),
    ],
)
def test_the_first_reply_decides(
    status: int, headers: bytes, payload: bytes, outcome: tuple[str, int | None]
) -> None:
    assert reply_outcome(status, headers, payload, len(payload)) == outcome


def test_only_an_empty_503_says_that_nobody_listens_and_400_and_up_are_errors() -> None:
    assert is_no_responders(503, 0) and is_no_responders(503, None)
    assert not is_no_responders(503, 1) and not is_no_responders(None, 0)
    assert [is_error_status(status) for status in (None, 0, 100, 204, 400, 503)] == [
        *(False, False, False, False),
        *(True, True),
    ]


def test_the_error_of_a_service_is_in_headers_of_any_case() -> None:
    assert service_error([("Other", "x")]) is None
    assert service_error([("nats-service-error", "no"), ("X", "y")]) == ("no", None)
    assert service_error([("Nats-Service-Error-Code", "7")]) == (None, "7")


def test_the_error_of_an_answer_of_the_api_has_parts_that_may_be_missing() -> None:
    error = {"code": 404, "err_code": 10059, "description": "stream not found"}
    assert api_error({"error": error}) == (404, 10059, "stream not found")
    assert api_error({"error": {"code": True, "description": 1}}) == (None, None, None)
    assert api_error({"error": "text"}) == (None, None, "text")
    assert api_error({"stream": "S"}) == (None, None, None)


@pytest.mark.parametrize(
    "status, text, refused",
    [
        (400, None, True),
        (412, None, True),
        (409, "Exceeded MaxWaiting", True),
        (409, "Consumer Deleted", False),
        (404, None, False),
        (None, None, False),
    ],
)
def test_a_pull_that_is_refused_never_waits(
    status: int | None, text: str | None, refused: bool
) -> None:
    assert refuses_pull(status, text) is refused
