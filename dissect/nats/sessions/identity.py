"""The peers of a session, from its INFO and CONNECT frames. No secret is stored here."""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode
from dataclasses import dataclass, replace

from natsync.protocol import ConnectOptions, Kind, ServerInfo

from ..records import SessionRecord
from ..types import Direction

_NAMES = ("server_name", "version", "cluster", "gateway")
_GOSSIP = "nats-route://"


class Identity:
    """The peers of a session as their INFO and CONNECT describe them. A later INFO of a server updates
    its first one."""

    def __init__(self) -> None:
        self._infos: dict[Direction, ServerInfo] = {}
        self._connect: ConnectOptions | None = None
        self._token = UserToken()
        self._account = ""
        self._lame_duck_ns: int | None = None
        self._urls: tuple[str, ...] = ()

    def learn_info(self, sender: Direction, info: ServerInfo, ts_ns: int = 0) -> None:
        """Adds an INFO. Gossip is ignored: it describes other servers of the cluster, not the sender."""
        if _is_gossip(info):
            return
        known = self._infos.setdefault(sender, info)
        if info.server_id and known.server_id not in ("", info.server_id):
            return
        self._account = info.remote_account or self._account
        if info.ldm and self._lame_duck_ns is None:
            self._lame_duck_ns = ts_ns
        if info.server_id:
            said = {name: getattr(info, name) or getattr(known, name) for name in _NAMES}
            self._infos[sender] = replace(info, **said)
            self._urls = info.connect_urls or self._urls

    def learn_connect(self, options: ConnectOptions) -> None:
        """Adds a CONNECT; a later one replaces the first, as on the server."""
        self._connect = options
        self._token = read_token(options.jwt)

    def fill(self, record: SessionRecord, kind: Kind | None) -> None:
        """Sets the columns about the peers."""
        server = self._infos.get(Direction.RESPONDER)
        if server:
            record.server_name = server.server_name or None
            record.server_id = server.server_id or None
            record.server_version = server.version or None
            record.cluster = server.gateway or server.cluster or None
        record.account = self._account or record.account
        record.lame_duck_ns = self._lame_duck_ns
        record.connect_urls = list(self._urls) or None
        remote = self._infos.get(Direction.ORIGINATOR)
        if remote:
            record.remote_name = remote.server_name or None
            record.remote_cluster = remote.gateway or remote.cluster or None
            record.client_version = remote.version or None
        if self._connect:
            self._fill_connect(record, self._connect, kind)

    def _fill_connect(
        self, record: SessionRecord, options: ConnectOptions, kind: Kind | None
    ) -> None:
        token = self._token
        record.auth = auth_of(options)
        record.user = options.user or options.nkey or token.subject or None
        record.user_name = token.name or None
        record.client_version = options.version or record.client_version
        record.account = record.account or options.remote_account or token.account or None
        if kind in (Kind.CLIENT, None):
            record.client_name = options.name or None
            record.client_lang = options.lang or None
            return
        record.remote_name = record.remote_name or options.name or None
        record.remote_cluster = record.remote_cluster or options.gateway or options.cluster or None


def _is_gossip(info: ServerInfo) -> bool:
    """Whether an INFO describes another server or is a gateway command: only a server's first INFO has a
    nonce."""
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
