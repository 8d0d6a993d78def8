"""The nats command (github.com/nats-io/natscli), where there is one: NATS_CLI names it, else PATH."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.support.servers import NatsServer

TIMEOUT = 30.0


def nats(server: NatsServer, *words: object, data: bytes = b"") -> bytes:
    """What the command prints; skips the test where there is none."""
    program = shutil.which(os.environ.get("NATS_CLI", "nats"))
    if not program:
        pytest.skip("no nats command: install github.com/nats-io/natscli, or name it with NATS_CLI")
    done = subprocess.run(
        [program, "--server", server.url, *map(str, words)],
        input=data,
        capture_output=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return done.stdout
