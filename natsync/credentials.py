"""Credentials of a program: `Login`, and `.creds` files as `nsc` writes them.

A `.creds` file has two blocks between lines of dashes, the JWT of the user and its nkey seed (nkeys,
creds_utils.go). No error text and no `repr` shows a secret.
"""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from collections.abc import Callable

from ._checks import check_call
from .errors import OptionError
from .nkeys import KeyPair, is_public_key
from .protocol.structs import Struct, field

__all__ = ["Login", "Source", "check_nkey", "read_credentials"]

Source = str | os.PathLike[str] | bytes
"""Credentials: the path of a file, or its content (bytes, or a str of more than a line)."""

_LARGEST = 1 << 20
# Not compiled here: most programs need neither, and `re` caches what it compiles.
_BLOCK = rb"(?m)^-{3,}[ ]?BEGIN ([A-Z ]{1,64}?)[ ]?-{3,}\s+([\w.=-]+)\s+^-{3,}[ ]?END "
# A bare seed or JWT, or base64 of a line of dashes: it is no path, and no error may show it as one.
_NAKED = r"\s*(S[A-Z2-7]{50,}|eyJ[\w.=-]{20,}|LS0t[\w+/=\s-]{20,})\s*"
_MOST_SHOWN = 255  # characters of a path


class Login(Struct, frozen=True, kw_only=True):
    """The options for credentials; omitted ones are empty.

    All but `sign` may be callables that return the value, and are called at every connect. `nkey` is a
    seed; or, with `sign`, the public key that `sign` signs for. `credentials` are a JWT with its seed.
    `jwt` comes with its seed as `nkey`, with `sign`, or alone if it is a bearer token. Raises OptionError
    for contradictory options, and TypeError.
    """

    user: str | Callable[[], str] = ""
    password: str | Callable[[], str] = field(default="", repr=False)
    token: str | Callable[[], str] = field(default="", repr=False)
    credentials: Source | Callable[[], Source] = field(default="", repr=False)
    nkey: str | bytes | Callable[[], str | bytes] = field(default="", repr=False)
    jwt: str | bytes | Callable[[], str | bytes] = field(default="", repr=False)
    sign: Callable[[bytes], bytes] | None = None

    def __post_init__(self) -> None:
        for name in ("user", "password", "token"):
            self._check_type(name, str, "str")
        for name in ("nkey", "jwt"):
            self._check_type(name, (str, bytes), "str or bytes")
        self._check_type("credentials", (str, os.PathLike, bytes), "a path, bytes or str")
        check_call(sign=self.sign)
        self._check_conflicts()
        if isinstance(self.nkey, (str, bytes)) and self.nkey:
            check_nkey(self.nkey, self.sign)
        if self.credentials and not (callable(self.credentials) or _is_path(self.credentials)):
            KeyPair(read_credentials(self.credentials)[1], "credentials")

    @property
    def may_block(self) -> bool:
        """Whether resolving these credentials calls a function of the program or reads a file."""
        given = (self.user, self.password, self.token, self.credentials, self.nkey, self.jwt)
        if any(callable(value) for value in given):
            return True
        return not callable(self.credentials) and _is_path(self.credentials)

    def _check_type(self, name: str, types: type | tuple[type, ...], expected: str) -> None:
        value = getattr(self, name)
        if callable(value):
            check_call(**{name: value})
        elif not isinstance(value, types):
            raise TypeError(f"{name} must be {expected}, or callable, not {type(value).__name__}")

    def _check_conflicts(self) -> None:
        if self.token and (self.user or self.password):
            raise OptionError("token", "excludes user and password")
        if self.credentials and (self.nkey or self.jwt or self.sign):
            raise OptionError("credentials", "excludes nkey, jwt and sign")
        if self.nkey and self.jwt and self.sign:
            raise OptionError("sign", "excludes nkey with jwt: the nkey signs")
        if self.sign and not (self.nkey or self.jwt):
            raise OptionError("sign", "needs jwt, or a public key as nkey")


def check_nkey(nkey: str | bytes, sign: Callable[[bytes], bytes] | None) -> None:
    """Raises OptionError unless `nkey` is a seed or, with `sign`, a public key."""
    if not sign:
        KeyPair(nkey)
    elif not is_public_key(nkey):
        raise OptionError("nkey", "must be a user's public key (U...) when sign is given")


def read_credentials(source: Source) -> tuple[str, str]:
    """Reads the JWT and the seed from `source`. Raises OptionError."""
    place = ""
    if _is_path(source):
        path = os.fspath(source)
        shown = repr(path) if len(path) <= _MOST_SHOWN else f"of {len(path)} characters"
        place = f"file {shown}: "
        source = _read(path, place)
    content = source if isinstance(source, bytes) else str(source).encode("utf-8", "replace")
    return _parse(content.removeprefix(BOM_UTF8), place)  # Windows Notepad writes one


def _is_path(source: Source) -> bool:
    if isinstance(source, bytes):
        return False
    text = os.fspath(source)
    if re.fullmatch(_NAKED, text):
        reason = "must be a .creds file or its content, not a seed, a JWT or base64"
        raise OptionError("credentials", reason)
    return (
        isinstance(source, os.PathLike) or bool(text) and "\n" not in text and "BEGIN " not in text
    )


def _parse(content: bytes, place: str) -> tuple[str, str]:
    blocks = {label.decode(): text.decode() for label, text in re.findall(_BLOCK, content)}
    jwt = next((text for label, text in blocks.items() if "JWT" in label), "")
    seed = next((text for label, text in blocks.items() if "SEED" in label), "")
    if not jwt:
        raise OptionError("credentials", f"{place}no JWT block (BEGIN NATS USER JWT)")
    if not seed:
        raise OptionError("credentials", f"{place}no seed block (BEGIN USER NKEY SEED)")
    return jwt, seed


def _read(path: str | bytes, place: str) -> bytes:
    try:
        with open(os.path.expanduser(path), "rb") as file:
            content = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or "not a file name"
        raise OptionError("credentials", f"{place}{reason}") from error
    if len(content) > _LARGEST:
        raise OptionError("credentials", f"{place}too large to be one of credentials")
    return content
