"""Masks what proves who somebody is: in INFO, CONNECT, and any text that repeats it. On by default.

Masked are the values of CONNECT's secret keys, in any case, whatever their type; the secret part of a
`user:secret@` or `token@` in front of a host; and nkey seeds wherever they stand (`S`, the letter of a
role, base32). User names, public nkeys and nonces are shown: they prove nothing. What is meant to be JSON
and cannot be read is masked whole.
"""

from __future__ import annotations

import json
import re

from natsync.protocol import SECRETS

MASK = "***"

_MASKED_KEYS = SECRETS | {"password", "seed"}

_SEED = re.compile(r"\bS[ACNOUX][A-Z2-7]{56}\b")
_WITH_SCHEME = re.compile(r"://[^\s\"']*")

# Shorter secrets are not looked for in other texts: masking every "a" would tell more than it hides.
_SEARCHABLE = 4


def masked_json(text: bytes) -> str:
    """The JSON object in `text`, on one line, without secrets."""
    try:
        value = _masked(_loaded(text))
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return MASK


def masked_text(text: str, secrets: frozenset[str] = frozenset()) -> str:
    """`text` without seeds, without passwords in URLs, and without any of `secrets`."""
    for secret in sorted(secrets, key=len, reverse=True):  # one may begin with another
        text = text.replace(secret, MASK)
    return _WITH_SCHEME.sub(_masked_userinfo, _SEED.sub(MASK, text))


def secrets_of(text: bytes) -> frozenset[str]:
    """The secrets in a CONNECT, to be masked wherever the conversation repeats them."""
    try:
        value = _loaded(text)
    except (ValueError, RecursionError):
        return frozenset()
    return frozenset(
        item
        for key, item in value.items()
        if key.lower() in _MASKED_KEYS and isinstance(item, str) and len(item) >= _SEARCHABLE
    )


def _loaded(text: bytes) -> dict[str, object]:
    """The object that the JSON in `text` says, read as the codec reads it. Raises ValueError or
    RecursionError where it cannot be read."""
    value: object = json.loads(text.decode("utf-8", "replace"), parse_constant=_no_constant)
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _masked(value: object) -> object:
    if isinstance(value, dict):
        return {
            masked_text(key): MASK if key.lower() in _MASKED_KEYS and item else _masked(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_masked(item) for item in value]
    return masked_text(value) if isinstance(value, str) else value


def _masked_userinfo(found: re.Match[str]) -> str:
    """`://user:***@host`; a lone name in front of the host is a token. What is in front of the last @ is
    taken for it all: a password may hold an @ or / that nobody escaped."""
    userinfo, at, host = found[0].removeprefix("://").rpartition("@")
    if not at:
        return found[0]
    user, colon, _ = userinfo.partition(":")
    return f"://{user}:{MASK}@{host}" if colon and "/" not in user else f"://{MASK}@{host}"
