"""Payloads that Python needs are those of `outcomes.may_be_api_error`."""

from __future__ import annotations

import numpy as np
import pytest

from dissect.nats import outcomes
from dissect.nats.kernel import pieces, state
from dissect.nats.kernel.lines import SERVER, parse

from tests.dissector.kernel.both import KERNEL

pytestmark = KERNEL

BODIES = {
    "empty": b"",
    "text": b'x"error"',
    "error": b'{"error":{}}',
    "no error": b'{"a":1}',
    "cut word": b'{"error',
    "last in the head": b"{" + bytes(504) + b'"error"',
    "after the head": b"{" + bytes(505) + b'"error"',
    "largest": b'{"error"'.ljust(outcomes.ERROR_BYTES),
    "too large": b'{"error"'.ljust(outcomes.ERROR_BYTES + 1),
}


def needed(body: bytes, replies: int = 1) -> bool:
    """Whether the payload of this reply is one that Python needs."""
    control, line = np.zeros(state.C_WIDTH, np.int64), np.zeros(state.L_WIDTH, np.int64)
    control[state.C_REPLIES] = replies
    head = b"MSG a 1 %d\r\n" % len(body)
    text = np.frombuffer(head + body + b"\r\n", np.uint8)
    assert parse(text, 0, len(head), SERVER, line)
    end = len(head) + pieces.head_of(line, control)
    return bool(pieces.may_be_error(text, len(head), end, control))


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_payloads_that_may_be_errors_are_needed(body: bytes) -> None:
    assert needed(body) == outcomes.may_be_api_error(body)


def test_no_payload_is_needed_where_requests_have_no_rows() -> None:
    assert needed(BODIES["error"])
    assert not needed(BODIES["error"], 0)
