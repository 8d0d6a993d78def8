"""Errors made of facts: arguments, attributes, patterns, and copies."""

from __future__ import annotations

import pytest

from natsync import errors
from natsync.errors import fresh


def test_facts_are_named_or_in_order_and_none_is_missing() -> None:
    error = errors.PermissionsViolationError("no", "publish", subject="a")
    assert repr(error) == (
        "PermissionsViolationError(text='no', operation='publish', subject='a', queue='')"
    )
    assert error != errors.PermissionsViolationError("no", "publish", "a")
    match error:
        case errors.ServerError(text):
            assert text == "no"
    make: type = errors.MaxPayloadError
    for values, named in [((1,), {}), ((1, 2, 3), {}), ((1,), {"size": 1}), ((1, 2), {"more": 3})]:
        with pytest.raises(TypeError, match="MaxPayloadError takes size, limit"):
            make(*values, **named)
    make = errors.ForkedError
    with pytest.raises(TypeError, match="takes no arguments"):
        make(1)


def test_a_fresh_copy_keeps_the_cause() -> None:
    error = errors.ConnectionClosedError("gone")
    error.__cause__ = OSError("reset")
    again = fresh(error)
    assert again is not error
    assert again.__cause__ is error.__cause__
