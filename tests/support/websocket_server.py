"""A server that the core behaviour tests of the client reach over WebSocket, and over WebSocket in TLS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest

from tests.support.certificates import Authority, Paths
from tests.support.faults import Link
from tests.support.proxy import Proxy
from tests.support.servers import NatsServer, Which, require_server

Form = Literal["current", "old", "websocket", "secure websocket"]
"""A server of either version over TCP, or a current one over WebSocket, in the clear or in TLS."""

FORMS: tuple[Form, ...] = ("current", "old", "websocket")
WEBSOCKETS: tuple[Form, ...] = ("websocket", "secure websocket")
EVERY_FORM: tuple[Form, ...] = (*FORMS, "secure websocket")


class WebSocketServer(NatsServer):
    """A current server whose `url` is that of its WebSocket listener."""

    def __init__(self, config: str = "", certificate: Paths | None = None) -> None:
        files = (certificate.cert, certificate.key) if certificate else (None, None)
        super().__init__(config, websocket=True, cert_file=files[0], key_file=files[1])

    @property
    def url(self) -> str:
        """Where clients connect."""
        return self.websocket_url


def server_of(form: Form, config: str = "") -> NatsServer:
    """A server to be started; the test is skipped without its program."""
    which: Which = "old" if form == "old" else "current"
    require_server(which)
    return WebSocketServer(config) if form == "websocket" else NatsServer(config, which=which)


@contextmanager
def running(form: Form, folder: Path, config: str = "") -> Iterator[NatsServer]:
    """A server that runs. What connects meanwhile trusts its certificate, which is in `folder`: the tests of
    plain TCP need no option for TLS then."""
    if form != "secure websocket":
        with server_of(form, config) as server:
            yield server
        return
    require_server("current")
    authority = Authority(folder)
    certificate = authority.issue("server", "127.0.0.1")
    with pytest.MonkeyPatch.context() as patch, WebSocketServer(config, certificate) as server:
        patch.setenv("SSL_CERT_FILE", str(authority.cert))
        yield server


def proxy_to(server: NatsServer, when_linked: Callable[[Link], None] | None = None) -> Proxy:
    """A proxy in front of the listener that `server.url` names; its own URL is of the same scheme."""
    url = urlsplit(server.url)
    proxy = Proxy(url.hostname or "", url.port or 0, when_linked)
    proxy.url = f"{url.scheme}://127.0.0.1:{proxy.port}"
    return proxy
