"""What a CONNECT says: who we are, and what proves it.

Credentials in the URL of the server at hand come before those of the options, as in nats.go
(connectProto). User with password, and token, are known; nkeys and JWT are not yet.
"""

from __future__ import annotations

from .options import Options, Server
from .protocol import ConnectOptions, ServerInfo

__all__ = ["connect_options"]


def connect_options(options: Options, server: Server, info: ServerInfo) -> ConnectOptions:
    """The CONNECT for `server`, which introduced itself with `info`."""
    said = server if server.user or server.password or server.token else options
    return ConnectOptions(
        verbose=False,
        pedantic=False,
        user=said.user,
        password=said.password,
        auth_token=said.token,
        name=options.name,
        lang="python",
        version=options.version,
        protocol=1,
        headers=info.headers,
        no_responders=info.headers,
    )
