"""Masks secrets in INFO, CONNECT and every text that repeats them. On by default.

This module masks the values of CONNECT's secret keys, in any case and of any type; the secret part of
`user:secret@host` and `token@host`, with or without a scheme; nkey seeds (`S`, the letter of a role, base32);
and the secrets of a connection where its INFO, CONNECT or -ERR, or an error or configuration in an answer,
repeats them; so it is with the secrets of an HTTP request, and with headers. Payloads are shown as they are.
Subjects are not masked: they cross connections that do not know the secret, and rows of several connections
are joined by subject. User names, public nkeys and nonces are shown, because they prove nothing, except a
user name without a password in the CONNECT of a leafnode, which is a token. JSON that cannot be read is
masked whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from natsync.protocol import SECRETS

MASK = "***"

_MASKED_KEYS = SECRETS | {"password", "seed", "token"}
_PAIR = re.compile(
    rf'"(?:{"|".join(sorted(_MASKED_KEYS))})"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|(-?\d[\d.eE+-]*))',
    re.IGNORECASE | re.DOTALL,
)

_SEED = re.compile(r"\bS[ACNOUX][A-Z2-7]{56}\b")
_WORD = re.compile(r"[^\s\"']+")
_HOST_WITH_PORT = re.compile(r"[\w.\-\[\]:]*:\d+\b")

# Shorter secrets are not searched for in other texts: masking every "a" would tell more than it hides.
_SEARCHABLE = 4
# A connection has one CONNECT, sometimes a few. Beyond this many secrets, texts of the session are masked
# whole, so that a capture with a thousand CONNECTs costs no more for each -ERR than one with a few.
_SECRETS = 64


_NONE: frozenset[str] = frozenset()


class Secrets:
    """The secrets that one connection has shown so far. A value does not change: `learned` and `with_texts`
    return another one, with more secrets."""

    __slots__ = ("_known",)

    def __init__(self, known: frozenset[str] = _NONE) -> None:
        self._known = known

    def learned(self, connect: bytes) -> Secrets:
        """These secrets, and those in the JSON of a CONNECT."""
        return self._with(secrets_of(connect)) if len(self._known) <= _SECRETS else self

    def with_texts(self, texts: Iterable[str]) -> Secrets:
        """These secrets, and texts that are secret."""
        return self._with(text for text in texts if len(text) >= _SEARCHABLE)

    def _with(self, more: Iterable[str]) -> Secrets:
        known = self._known.union(more)
        return self if known == self._known else Secrets(known)

    def masked(self, text: str) -> str:
        """`text` without these secrets, without seeds and without passwords in addresses."""
        if len(self._known) > _SECRETS:
            return MASK
        return masked_text(text, self._known)

    def masked_url(self, url: str) -> str:
        """`url` with its user information masked, except the user name."""
        return _masked_address(self.masked(url))

    def may_be_in(self, text: str) -> bool:
        """Whether `masked` might change a part of this text."""
        known = self._known
        return (
            "@" in text
            or len(known) > _SECRETS
            or any(map(text.__contains__, known))
            or _SEED.search(text) is not None
        )

    def joined(self, others: Iterable[Secrets]) -> Secrets:
        """The secrets of several connections, all of which are masked, or none."""
        return self._with(chain.from_iterable(each._known for each in others))


class _NotMasked(Secrets):
    """What a connection has shown if texts are shown as they are."""

    __slots__ = ()

    def _with(self, more: Iterable[str]) -> Secrets:
        return self

    def masked(self, text: str) -> str:
        return text

    def masked_url(self, url: str) -> str:
        return url

    def may_be_in(self, text: str) -> bool:
        return False


NO_SECRETS = Secrets()
NOT_MASKED: Secrets = _NotMasked()
"""Masks nothing, whatever is learned."""


def masked_json(text: bytes, secrets: Secrets = NO_SECRETS) -> str:
    """The JSON object in `text`, on one line, without its secrets and those that the session has shown."""
    try:
        value = _masked(_loaded(text), secrets)
        return _TEXT.encode(value)
    except (ValueError, RecursionError):
        return MASK


def masked_values(values: dict[str, object], secrets: Secrets) -> dict[str, object]:
    """The members of a parsed JSON object, without their secrets and these."""
    masked = _masked(values, secrets)
    assert isinstance(masked, dict)
    return masked


def masked_text(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without seeds, without passwords in addresses, and without `secrets`."""
    if secrets:
        for secret in sorted(secrets, key=len, reverse=True):  # one may begin with another
            text = text.replace(secret, MASK)
    text = _SEED.sub(MASK, text)
    return _WORD.sub(_masked_word, text) if "@" in text else text


def secrets_of(text: bytes) -> frozenset[str]:
    """The secrets in a CONNECT, at any depth, in every form in which the session may repeat them: plain, as
    JSON libraries escape them, and, if they are not UTF-8, as the columns show such bytes. A name may occur
    twice, and the text need not be JSON as a whole."""
    found: set[str] = set()
    for pair in _PAIR.finditer(text.decode("utf-8", "surrogateescape")):
        escaped = pair[1] or pair[2] or ""
        found.update(_columns(escaped), _unescaped(escaped))
    try:
        connect = _loaded(text, "surrogateescape")
        for item in (*_secret_values(connect), *_leafnode_token(connect)):
            found.update(_forms(item))
    except (ValueError, RecursionError):
        pass  # the pairs are all that can be read
    return frozenset(form for form in found if len(form) >= _SEARCHABLE)


def _secret_values(value: object, is_secret: bool = False) -> Iterator[str]:
    """The texts under secret keys."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _secret_values(item, is_secret or key.lower() in _MASKED_KEYS)
    elif isinstance(value, list):
        for item in value:
            yield from _secret_values(item, is_secret)
    elif isinstance(value, str) and is_secret:
        yield value


def _leafnode_token(connect: dict[str, object]) -> Iterator[str]:
    """The token of a leafnode whose URL has one (`nats-leaf://token@host`). nats-server 2.9 sends it as the
    user, and a current one as both (server/leafnode.go, `sendLeafConnect`)."""
    user = connect.get("user")
    if connect.get("server_id") and isinstance(user, str):
        if not any(map(connect.get, ("pass", "nkey", "jwt", "sig"))):
            yield user


def _unescaped(text: str) -> Iterable[str]:
    """The value of a JSON string with this text between its quotes, in the forms of `_forms`."""
    try:
        return _forms(str(json.loads(f'"{text}"', strict=False)))
    except ValueError:
        return ()


def _forms(text: str) -> Iterator[str]:
    """A text as it is, and as JSON libraries escape it: quotes and control characters, also what is not ASCII
    (Python), also what HTML must escape (Go)."""
    escaped = _TEXT.encode(text)[1:-1]
    yield from _columns(text)
    yield from _columns(escaped)
    yield from _columns(escaped.translate(_GO_ESCAPES))
    yield json.dumps(text)[1:-1]


def _columns(text: str) -> tuple[str, str]:
    """A text as columns show it, and as JSON is read."""
    raw = _wire(text)
    return raw.decode("utf-8", "backslashreplace"), raw.decode("utf-8", "replace")


def _wire(text: str) -> bytes:
    """The bytes of a text whose surrogates stand for bytes that are not UTF-8, or came from JSON escapes."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _loaded(text: bytes, errors: str = "replace") -> dict[str, object]:
    """Parses the JSON object in `text` as the codec does. Raises ValueError or RecursionError if it cannot be
    read."""
    value: object = _JSON.decode(text.decode("utf-8", errors))
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# Made once: `json.loads` and `json.dumps` make one each time.
_JSON = json.JSONDecoder(parse_constant=_no_constant)
_TEXT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_GO_ESCAPES = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}


def _masked(value: object, secrets: Secrets, is_url: bool = False) -> object:
    if isinstance(value, dict):
        return {
            secrets.masked(key): (
                MASK
                if key.lower() in _MASKED_KEYS and item
                else _masked(item, secrets, _names_url(key))
            )
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_masked(item, secrets, is_url) for item in value]
    if isinstance(value, str):
        return secrets.masked_url(value) if is_url else secrets.masked(value)
    return value


def _names_url(key: str) -> bool:
    """Whether the values of a key are addresses: connect_urls, ws_connect_urls, gateway_url, ..."""
    return "url" in key.lower()


def _masked_word(found: re.Match[str]) -> str:
    """Masks a word of a text. `name@host` without scheme and port may be an e-mail address, and is shown."""
    word = found[0]
    before, at, host = word.rpartition("@")
    if at and ("://" in before or ":" in before or _HOST_WITH_PORT.match(host)):
        return _masked_address(word)
    return word


def _masked_address(address: str) -> str:
    """`user:***@host`; a lone name before the host is a token. Everything before the last @ counts as user
    information, because a password may have an @ or / that is not escaped."""
    userinfo, at, host = address.rpartition("@")
    if not at:
        return address
    scheme, slashes, rest = userinfo.partition("://")
    if not slashes:
        scheme, rest = "", userinfo
    user, colon, _ = rest.partition(":")
    shown = f"{user}:{MASK}" if colon and "/" not in user else MASK
    return f"{scheme}{slashes}{shown}@{host}"
