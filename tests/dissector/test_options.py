"""What the user decides has defaults that change nothing."""

from __future__ import annotations

from dissect.nats import Options, Payload


def test_by_default_secrets_are_masked_and_payloads_left_out() -> None:
    options = Options()
    assert options.redact and options.payload is Payload.NONE and not options.hints
