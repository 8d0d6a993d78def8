"""The credentials of servers for tests: who may connect, and as whom `connect` does."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["with_login"]

_CHOSEN = {"user", "password", "token", "credentials", "nkey_seed"}


def with_login(
    options: dict[str, object], token: str | None, users: Mapping[str, str]
) -> dict[str, object]:
    """Returns options of `natsync.connect` with the token, or the name and password of the first user, unless
    they have credentials."""
    if _CHOSEN & options.keys():
        return options
    if token is not None:
        return options | {"token": token}
    for user, password in users.items():
        return options | {"user": user, "password": password}
    return options
