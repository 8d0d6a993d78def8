"""INFO and CONNECT as typed values, for every kind of connection, and the kind that they reveal.

They are read as Go reads them (encoding/json): keys in any case, the last duplicate wins. Unknown keys are
kept in `extra`. So are values of the wrong type: a server would refuse them, but a dissector has to show
them. Field lists: server/server.go (Info), client.go (ClientOpts), route.go (connectInfo),
leafnode.go (leafConnectInfo). `repr` never shows a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, TypeVar

from .errors import ProtocolError
from .frames import Kind
from .structs import Struct, field

__all__ = ["ConnectOptions", "SECRETS", "ServerInfo", "kind_of_connect", "kind_of_info"]

SECRETS = frozenset({"auth_token", "pass", "jwt", "sig", "proxy_sig"})
"""The keys of CONNECT whose values prove the identity of the opener."""

_S = TypeVar("_S", bound="_Handshake")
# Not compiled here: most programs never need it, and `re` caches what it compiles.
_SERVER_ID = r"N[A-Z2-7]{55}|[0-9A-Za-z]{22}"
_WIRE_NAMES = {"password": "pass"}


class _Handshake(Struct, kw_only=True):
    """The common part of INFO and CONNECT: reading, writing, and a `repr` without secrets."""

    always: ClassVar[frozenset[str]] = frozenset()
    """The keys that `to_json` writes even at their defaults."""
    known: ClassVar[dict[str, str]] = {}
    """The fields by their keys on the wire."""

    extra: dict[str, object] = field(default_factory=dict)

    @classmethod
    def parse(cls: type[_S], text: bytes) -> _S:
        """The object in `text`. Raises ProtocolError if it is not one JSON object."""
        known = cls.known
        values: dict[str, object] = {}
        extra: dict[str, object] = {}
        for key, value in _object(text).items():
            name = known.get(key.lower())
            if name and _fits(value, cls._declared[name].annotation):
                values[name] = tuple(value) if isinstance(value, list) else value
            elif value is not None:
                extra[key] = value
        return cls(**values, extra=extra)

    def to_json(self) -> bytes:
        """One line of JSON. Fields at their defaults are left out, since the reader assumes the defaults."""
        import json  # imported late, see `_object`

        values = {key: value for key, _, value in self._values(self.always)}
        return json.dumps({**values, **self.extra}, separators=(",", ":")).encode()

    def _values(self, always: frozenset[str] = frozenset()) -> Iterator[tuple[str, str, object]]:
        """Key, field and value of every field that is not at its default, and of those in `always`."""
        for key, name in self.known.items():
            value = getattr(self, name)
            if value != self._declared[name].default or name in always:
                yield key, name, value

    def __repr__(self) -> str:
        shown = [
            f"{name}={('***' if key in SECRETS else value)!r}"
            for key, name, value in self._values()
        ]
        hidden = [f"extra={sorted(self.extra)}"] if self.extra else []
        return f"{type(self).__name__}({', '.join(shown + hidden)})"


class ServerInfo(_Handshake):
    """INFO: a server describes itself, on any kind of connection. Absent fields have their defaults."""

    always = frozenset({"server_id", "version", "proto", "host", "port", "headers", "max_payload"})

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    go: str = ""
    git_commit: str = ""
    proto: int = 0
    host: str = ""
    port: int = 0
    headers: bool = False
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    tls_available: bool = False
    max_payload: int = 1 << 20
    jetstream: bool = False
    ip: str = ""
    client_id: int = 0
    client_ip: str = ""
    nonce: str = ""
    cluster: str = ""
    cluster_dynamic: bool = False
    domain: str = ""
    connect_urls: tuple[str, ...] = ()
    ws_connect_urls: tuple[str, ...] = ()
    ldm: bool = False
    compression: str = ""
    connect_info: bool = False
    remote_account: str = ""
    acc_is_sys: bool = False
    api_lvl: int = 0
    xkey: str = ""
    lnoc: bool = False
    lnocu: bool = False
    ln: bool = False
    info_on_connect: bool = False
    route_pool_size: int = 0
    route_pool_idx: int = 0
    route_account: str = ""
    route_acc_add_reqid: str = ""
    gossip_mode: int = 0
    gateway: str = ""
    gateway_urls: tuple[str, ...] = ()
    gateway_url: str = ""
    gateway_cmd: int = 0
    gateway_cmd_payload: str = ""
    gateway_nrp: bool = False
    gateway_iom: bool = False
    leafnode_urls: tuple[str, ...] = ()


class ConnectOptions(_Handshake):
    """CONNECT: the opener describes itself, on any kind of connection. `repr` does not show its secrets.

    `cluster` is None if the key is absent: routes and leafnodes always send it, even if it is empty.
    """

    always = frozenset({"verbose", "pedantic"})

    verbose: bool = True
    pedantic: bool = True
    echo: bool = True
    tls_required: bool = False
    auth_token: str = ""
    user: str = ""
    password: str = ""
    jwt: str = ""
    nkey: str = ""
    sig: str = ""
    proxy_sig: str = ""
    name: str = ""
    lang: str = ""
    version: str = ""
    protocol: int = 0
    headers: bool = False
    no_responders: bool = False
    account: str = ""
    new_account: bool = False
    server_id: str = ""
    domain: str = ""
    cluster: str | None = None
    cluster_dynamic: bool = False
    lnoc: bool = False
    ln: bool = False
    gateway: str = ""
    is_hub: bool = False
    jetstream: bool = False
    isolate: bool = False
    compress_mode: str = ""
    remote_account: str = ""


for _cls in (ServerInfo, ConnectOptions):
    _names = (name for name in _cls._fields if name != "extra")
    _cls.known = {_WIRE_NAMES.get(name, name): name for name in _names}


def kind_of_info(info: ServerInfo) -> Kind | None:
    """The kind of connection on which `info` is the *first* INFO, of either side; None if it is not revealed.

    The test is that of server/leafnode.go (processLeafnodeInfo). It needs server 1.2 for clients, and 2.0
    for the other kinds. A leafnode that asks for compression sends an INFO without a server id before its
    CONNECT.
    """
    if info.gateway:
        return Kind.GATEWAY
    if not info.server_id and info.compression:
        return Kind.LEAFNODE
    if info.client_id:
        leafnode = info.leafnode_urls or info.info_on_connect
        return Kind.LEAFNODE if leafnode else Kind.CLIENT
    return Kind.ROUTE if info.lnoc or info.nonce else None


def kind_of_connect(options: ConnectOptions) -> Kind | None:
    """The kind of connection that begins with CONNECT `options`; None if they do not reveal it."""
    if options.gateway:
        return Kind.GATEWAY
    if options.lang:
        return Kind.CLIENT
    if options.server_id or options.remote_account or options.compress_mode or options.is_hub:
        return Kind.LEAFNODE
    if options.cluster is not None or re.fullmatch(_SERVER_ID, options.name):
        return Kind.ROUTE
    return None


def _object(text: bytes) -> dict[str, object]:
    import json  # imported late: it would take a fortieth of the time of `import natsync`

    try:
        value = json.loads(text.decode("utf-8", "replace"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise ProtocolError("JSON that cannot be read") from None
    if not isinstance(value, dict):
        raise ProtocolError("JSON that is not an object")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _fits(value: object, annotation: object) -> bool:
    match annotation:
        case "bool":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "tuple[str, ...]":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return isinstance(value, str)
