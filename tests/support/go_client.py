"""The program go_peer, which is nats.go at work on JetStream. It is built with Go when a test first needs it,
and kept outside the tree under a name that changes with its sources."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.streaming_programs import BUILD_TIMEOUT, built_programs, find_go

SOURCES = Path(__file__).parent / "go_peer"
GO_SINCE = (1, 23)


def go_peer() -> Path:
    """The program; skips the test where there is no Go to build it."""
    found = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        found.update(path.read_bytes())
    program = built_programs() / f"go_peer-{found.hexdigest()[:12]}"
    if not program.exists():
        go = find_go(GO_SINCE)
        if go is None:
            pytest.skip("no Go 1.23 or later, which builds nats.go")
        made = program.with_name(f"{program.name}.{os.getpid()}")
        subprocess.run(
            [go, "build", "-trimpath", "-o", made, "."],
            cwd=SOURCES,
            env={**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"},
            check=True,
            timeout=BUILD_TIMEOUT,
        )
        made.rename(program)
    return program
