"""A server that the core behaviour tests of the client reach over WebSocket."""

from __future__ import annotations

from typing import Literal

from tests.support.servers import NatsServer, Which, require_server

Form = Literal["current", "old", "websocket"]
"""A server of either version over TCP, or a current one over WebSocket."""

FORMS: tuple[Form, ...] = ("current", "old", "websocket")


class WebSocketServer(NatsServer):
    """A current server whose `url` is that of its WebSocket listener."""

    def __init__(self, config: str = "") -> None:
        super().__init__(f"websocket {{ listen: 127.0.0.1:-1, no_tls: true }}\n{config}")

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"ws://127.0.0.1:{self.websocket_port}"


def server_of(form: Form, config: str = "") -> NatsServer:
    """A server to be started; the test is skipped without its program."""
    which: Which = "old" if form == "old" else "current"
    require_server(which)
    return WebSocketServer(config) if form == "websocket" else NatsServer(config, which=which)
