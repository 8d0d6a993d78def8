"""A command of `natsync` that runs against a server of which each frame is written by the test."""

from __future__ import annotations

from natsync.cli import main

from tests.support.fake_server import Background, FakeServer, Peer


class CommandRun:
    """A command that runs; `peer` is its connection to the server."""

    def __init__(self, server: FakeServer, command: str, *arguments: str) -> None:
        self._call = Background(lambda: main([command, "-s", server.url, *arguments]))
        self.peer: Peer = server.accept()
        self.peer.greet()

    def status(self) -> int:
        """The exit status, once the command has closed its connection."""
        self.peer.expect_end()
        return self._call.result()
