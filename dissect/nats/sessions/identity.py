"""Who talks: from the INFOs and CONNECT of a conversation. Secrets are not kept here."""

from __future__ import annotations

from natsync.protocol import ConnectOptions, Kind, ServerInfo

from ..records import SessionRecord
from ..wire import Direction


class Identity:
    """What the two sides said of themselves. Later INFOs only add what the first could not know."""

    def __init__(self) -> None:
        self._infos: dict[Direction, ServerInfo] = {}
        self._connect: ConnectOptions | None = None
        self._account = ""

    def learn_info(self, sender: Direction, info: ServerInfo) -> None:
        """Takes an INFO. Those about other servers of the cluster (gossip) say nothing of the sender."""
        known = self._infos.setdefault(sender, info)
        if info.server_id in ("", known.server_id):
            self._account = info.remote_account or self._account

    def learn_connect(self, options: ConnectOptions) -> None:
        """Takes the CONNECT; a later one replaces the first, as on the server."""
        self._connect = options

    def fill(self, record: SessionRecord, kind: Kind | None) -> None:
        """Sets the columns that say who."""
        server = self._infos.get(Direction.RESPONDER)
        if server:
            record.server_name = server.server_name or None
            record.server_id = server.server_id or None
            record.server_version = server.version or None
            record.cluster = server.gateway or server.cluster or None
        record.account = self._account or record.account
        remote = self._infos.get(Direction.ORIGINATOR)
        if remote:
            record.remote_name = remote.server_name or None
            record.client_version = remote.version or None
        if self._connect:
            self._fill_connect(record, self._connect, kind)

    def _fill_connect(
        self, record: SessionRecord, options: ConnectOptions, kind: Kind | None
    ) -> None:
        record.auth = auth_of(options)
        record.user = options.user or options.nkey or None
        record.client_version = options.version or record.client_version
        record.account = record.account or options.account or None
        if kind in (Kind.CLIENT, None):
            record.client_name = options.name or None
            record.client_lang = options.lang or None
        elif not record.remote_name:
            record.remote_name = options.name or None


def auth_of(options: ConnectOptions) -> str:
    """How the opener proves who it is."""
    if options.jwt:
        return "jwt"
    if options.nkey:
        return "nkey"
    if options.user or options.password:
        return "user_password"
    return "token" if options.auth_token else "none"
