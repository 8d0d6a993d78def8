"""The credentials that CONNECT carries.

Credentials in the server's URL take precedence over the options user, password, token and nkey, as in
nats.go (connectProto); a JWT is sent with either. `resolve` calls the program's callables and may block;
`connect_options` calls none of them except `sign`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TypeVar

from ..credentials import Login, Source, check_nkey, read_credentials
from ..errors import CredentialsError, OptionError
from ..nkeys import KeyPair
from ..options import Options, Server, WebSocketHeaders, check_headers
from ..protocol import ConnectOptions, ServerInfo
from ..protocol.structs import Struct, field

__all__ = ["Resolved", "connect_options", "resolve", "resolve_headers"]

_T = TypeVar("_T")
_Value = TypeVar("_Value", str, "str | bytes", Source)

_SIGNATURE_BYTES = 64


class Resolved(Struct, frozen=True):
    """The credentials for one connection attempt. `sign` is set for an `nkey`, and may be set for a `jwt`,
    which names its own key."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    nkey: str = ""
    jwt: str = field(default="", repr=False)
    sign: Callable[[bytes], bytes] | None = None


def resolve(login: Login, server: Server) -> Resolved:
    """Returns the credentials for `server`. Calls the callables of `login` and reads its file, so it
    may block.

    Raises CredentialsError. If a callable raised an exception, that is the cause.
    """
    try:
        jwt, sign = _ask_jwt(login)
        if server.user or server.password or server.token:
            return Resolved(server.user, server.password, server.token, jwt=jwt, sign=sign)
        nkey, sign = ("", sign) if login.jwt or not login.nkey else _ask_nkey(login)
        return Resolved(
            _ask("user", login.user, str),
            _ask("password", login.password, str),
            _ask("token", login.token, str),
            nkey,
            jwt,
            sign,
        )
    except OptionError as error:
        raise CredentialsError(error.option, error.reason) from error


def resolve_headers(headers: WebSocketHeaders | None) -> Mapping[str, str]:
    """Returns the headers for an upgrade to a WebSocket. Calls the function that makes them, so it may block.

    Raises CredentialsError. If the function raised an exception, that is the cause.
    """
    if not callable(headers):
        return headers or {}
    made = _call("websocket_headers", headers)
    try:
        check_headers(made)
    except OptionError as error:
        raise CredentialsError(error.option, error.reason) from error
    except TypeError as error:
        raise CredentialsError(
            "websocket_headers", f"the callable returned others: {error}"
        ) from error
    return {**made}


def _program_name() -> str:
    """Returns the name of the running program, by which an operator finds it in the list of processes; empty
    if the program is not a file."""
    path = getattr(sys, "argv", None) or [""]  # an embedded interpreter may have none
    folder, name = os.path.split(path[0])
    if name == "__main__.py":  # of `python -m package`
        name = os.path.basename(folder)
    return "" if name in ("-c", "-m", "-") else name


def connect_options(options: Options, resolved: Resolved, info: ServerInfo) -> ConnectOptions:
    """Returns the CONNECT with `resolved` for the server that sent `info`. Raises CredentialsError."""
    if resolved.nkey and not info.nonce:
        raise CredentialsError("nkey", "not supported by the server: its INFO has no nonce")
    return ConnectOptions(
        verbose=options.verbose,
        pedantic=options.pedantic,
        echo=options.echo,
        user=resolved.user,
        password=resolved.password,
        auth_token=resolved.token,
        jwt=resolved.jwt,
        nkey=resolved.nkey,
        # A bearer JWT needs no signature, so the JWT is sent even if INFO has no nonce.
        sig=_signature(resolved.sign, info.nonce) if resolved.sign and info.nonce else "",
        name=_program_name() if options.name is None else options.name,
        lang="python",
        version=options.version,
        protocol=1,
        headers=info.headers,
        no_responders=info.headers,
    )


def _ask_jwt(login: Login) -> tuple[str, Callable[[bytes], bytes] | None]:
    if not login.credentials:
        jwt = _text(_ask("jwt", login.jwt, (str, bytes)))
        return jwt, _ask_nkey(login)[1] if login.jwt and login.nkey else login.sign
    source = _ask("credentials", login.credentials, (str, bytes, os.PathLike))
    jwt, seed = read_credentials(source)
    return jwt, KeyPair(seed, "credentials").sign


def _ask_nkey(login: Login) -> tuple[str, Callable[[bytes], bytes]]:
    nkey = _ask("nkey", login.nkey, (str, bytes))
    check_nkey(nkey, login.sign)
    if login.sign:
        return _text(nkey), login.sign
    pair = KeyPair(nkey)
    return pair.public_key, pair.sign


def _ask(
    option: str, value_or_call: _Value | Callable[[], _Value], kind: type | tuple[type, ...]
) -> _Value:
    """Returns a value, or the result of a callable."""
    if not callable(value_or_call):
        return value_or_call
    value = _call(option, value_or_call)
    if not isinstance(value, kind):
        raise CredentialsError(option, f"the callable returned {type(value).__name__}")
    return value


def _signature(sign: Callable[[bytes], bytes], nonce: str) -> str:
    from base64 import urlsafe_b64encode  # here: few programs need it

    message = nonce.encode("utf-8", "replace")
    raw = _call("sign", lambda: sign(message))
    if not isinstance(raw, bytes) or len(raw) != _SIGNATURE_BYTES:
        raise CredentialsError("sign", f"the callable must return {_SIGNATURE_BYTES} bytes")
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _call(option: str, asked: Callable[[], _T]) -> _T:
    try:
        return asked()
    except BaseException as error:  # the program's own code, which may raise anything
        raise CredentialsError(option, f"the callable raised {type(error).__name__}") from error


def _text(value: str | bytes) -> str:
    text = value if isinstance(value, str) else value.decode("utf-8", "replace")
    return text.strip()
