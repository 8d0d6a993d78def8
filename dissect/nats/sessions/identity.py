"""The peers of a session, from its INFO and CONNECT frames. No secret is stored here."""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode
from dataclasses import dataclass

from natsync.protocol import ConnectOptions, ServerInfo

from ..types import Direction

_NAMES = ("server_name", "version", "cluster", "gateway", "client_id")
_GOSSIP = "nats-route://"


class Identity:
    """The peers of a session as their INFO and CONNECT describe them. A later INFO of a server updates
    its first one. `infos` has the INFO of each sender, `connect` is the last CONNECT, and `token` has the
    claims of its JWT. `account`, `urls` and `lame_duck_ns` come from INFO; `lame_duck_ns` is the time of the
    first INFO that announces lame duck mode."""

    def __init__(self) -> None:
        self.infos: dict[Direction, ServerInfo] = {}
        self.connect: ConnectOptions | None = None
        self.token = UserToken()
        self.account = ""
        self.lame_duck_ns: int | None = None
        self.urls: tuple[str, ...] = ()

    def learn_info(self, sender: Direction, info: ServerInfo, ts_ns: int = 0) -> None:
        """Adds an INFO. Gossip is ignored: it describes other servers of the cluster, not the sender."""
        if _is_gossip(info):
            return
        known = self.infos.setdefault(sender, info)
        if info.server_id and known.server_id not in ("", info.server_id):
            return
        self.account = info.remote_account or self.account
        if info.ldm and self.lame_duck_ns is None:
            self.lame_duck_ns = ts_ns
        if info.server_id:
            names = {name: getattr(info, name) or getattr(known, name) for name in _NAMES}
            self.infos[sender] = info.replace(**names)
            self.urls = info.connect_urls or self.urls

    def learn_connect(self, options: ConnectOptions) -> None:
        """Adds a CONNECT. It replaces an earlier one, as on the server."""
        self.connect = options
        self.token = read_token(options.jwt)


def _is_gossip(info: ServerInfo) -> bool:
    """Whether an INFO describes another server or is a gateway command. It does not describe another server
    if it has a nonce, which only a server's first INFO has."""
    return bool(info.gateway_cmd) or (info.ip.startswith(_GOSSIP) and not info.nonce)


def auth_of(options: ConnectOptions) -> str:
    """The authentication method of a CONNECT."""
    if options.jwt:
        return "jwt"
    if options.nkey:
        return "nkey"
    if options.user or options.password:
        return "user_password"
    return "token" if options.auth_token else "none"


@dataclass(frozen=True, slots=True)
class UserToken:
    """The public claims of a user JWT: its subject, its name, and the account that issued it."""

    subject: str = ""
    name: str = ""
    account: str = ""


def read_token(jwt: str) -> UserToken:
    """The claims of a user JWT; empty if it cannot be decoded. The signature is not verified.

    If a signing key of the account issued the JWT, `nats.issuer_account` names the account
    (github.com/nats-io/jwt: UserClaims).
    """
    parts = jwt.split(".")
    if len(parts) != 3:
        return UserToken()
    body = parts[1].rstrip("=")
    try:
        claims = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, RecursionError, binascii.Error):
        return UserToken()
    if not isinstance(claims, dict):
        return UserToken()
    nats = claims.get("nats")
    issuer = nats.get("issuer_account") if isinstance(nats, dict) else None
    found = claims.get("sub"), claims.get("name"), issuer or claims.get("iss")
    return UserToken(*(item if isinstance(item, str) else "" for item in found))
