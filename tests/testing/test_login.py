"""As whom `connect` of a server for tests connects."""

from __future__ import annotations

import pytest

from natsync.testing.login import with_login


@pytest.mark.parametrize(
    ("options", "token", "users", "expected"),
    [
        ({}, None, {}, {}),
        ({"name": "n"}, "t", {}, {"name": "n", "token": "t"}),
        ({}, None, {"a": "1", "b": "2"}, {"user": "a", "password": "1"}),
        ({"user": "b", "password": "2"}, None, {"a": "1"}, {"user": "b", "password": "2"}),
        ({"token": "other"}, "t", {}, {"token": "other"}),
    ],
)
def test_credentials_of_the_caller_come_first(
    options: dict[str, object],
    token: str | None,
    users: dict[str, str],
    expected: dict[str, object],
) -> None:
    assert with_login(options, token, users) == expected
