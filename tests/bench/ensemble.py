"""The peers of the client, each a process that plays what it is told: see `peers/player.py`.

A peer from the package index lives in an environment of its own, since they get into each other's way: two
of them are called `nats`, and one needs a setuptools of long ago. One that cannot be had is left out, and
said so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.peers.raw import Raw
from tests.support.paths import ROOT

SCRIPTS = Path(__file__).parent / "peers"
SUBJECT = "bench.of.clients"
# So long should one game take: long against the noise, short for all the rounds of all the peers.
GAME_SECONDS = 0.25
FIRST_COUNT = 800
# What the server keeps for a slow reader is 64 MB; then it hangs up.
MOST_BYTES = 40_000_000
MOST = 250_000


@dataclass(frozen=True)
class Peer:
    """A script, what it needs from the package index, and the Python it takes at least."""

    name: str
    script: str
    needs: tuple[str, ...] = ()
    python: tuple[int, int] = (3, 10)
    arguments: tuple[str, ...] = ()

    def folder(self) -> str:
        return "+".join(need.translate(str.maketrans("=<>", "---")) for need in self.needs)


OURS = Peer("natsync", "ours.py")
PROBE = Peer("(the least there is)", "probe.py")
NATS_PY = Peer("nats-py", "natspy.py", ("nats-py==2.16.0", "uvloop"))
UVLOOP = Peer("nats-py+uvloop", "natspy.py", NATS_PY.needs, arguments=("uvloop",))
THREAD = Peer("nats-py on a loop thread", "natspy_thread.py", NATS_PY.needs)
CORE = Peer("nats-core", "natscore.py", ("nats-core==0.2.0", "nkeys"), (3, 13))
BLOCKING = Peer("nats-python", "natspython.py", ("nats-python==0.8.0", "setuptools<58", "wheel"))
GOING = Peer("goingnats", "going.py", ("goingnats==2022.4.0",))
PEERS = (OURS, PROBE, NATS_PY, UVLOOP, THREAD, CORE, BLOCKING, GOING)


@dataclass(frozen=True)
class Taken:
    """What a game took: things a second, CPU microseconds for each, and the median delay in microseconds."""

    rate: float
    cpu: float
    delay: float


class Player:
    """The running process of a peer."""

    def __init__(self, peer: Peer, python: str, port: int) -> None:
        self.peer = peer
        self._port = port
        self._process = subprocess.Popen(
            [python, str(SCRIPTS / peer.script), str(port), *peer.arguments],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)} if peer is OURS else {},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        report = self._hear()
        self.games: list[str] = report["games"]
        self.python: str = report["python"]
        self._counts: dict[tuple[str, int], int] = {}

    def play(self, game: str, size: int) -> Taken:
        """One game, as long as GAME_SECONDS say; the first of its kind finds out how many things that is."""
        count = self._counts.get((game, size))
        if count is None:
            self._play(game, size, 64)
            most = min(MOST, MOST_BYTES // (size + 64))
            count = FIRST_COUNT
            for _ in range(2):  # so few say little
                fit = int(self._play(game, size, count).rate * GAME_SECONDS)
                count = max(64, min(most, fit)) // 16 * 16
            self._counts[game, size] = count
        return self._play(game, size, count)

    def stop(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()

    def _play(self, game: str, size: int, count: int) -> Taken:
        order = {"game": game, "size": size, "count": count}
        assert self._process.stdin
        print(json.dumps(order), file=self._process.stdin, flush=True)
        report = self._hear()
        if "ready" in report:
            with Raw(self._port) as raw:
                if game == "receive_varied":
                    raw.feed_varied(count)
                else:
                    raw.feed(SUBJECT, size, count)
            report = self._hear()
        delays = report["delays"]
        if game == "delay":
            with Raw(self._port) as raw:
                raw.send(b"SUB told 1\r\nPUB report told 0\r\n\r\n")
                while not (found := raw.receive()):
                    pass
            delays = [each / 1e9 for each in json.loads(found[0][2])]
        return Taken(
            count / report["wall"],
            report["cpu"] / count * 1e6,
            median(delays) * 1e6 if delays else 0.0,
        )

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.peer.name} ended with status {self._process.wait()}")
        report: dict[str, Any] = json.loads(line)
        return report


def alternating(players: Sequence[Player], game: str, size: int, rounds: int) -> dict[str, Taken]:
    """The median of each figure of each peer that knows the game; all take their turn in each round."""
    able = [player for player in players if game in player.games]
    for player in able:
        player.play(game, size)
    runs = [[player.play(game, size) for player in able] for _ in range(rounds)]
    return {
        player.peer.name: Taken(
            median(run[at].rate for run in runs),
            median(run[at].cpu for run in runs),
            median(run[at].delay for run in runs),
        )
        for at, player in enumerate(able)
    }


@contextmanager
def ensemble(port: int, folder: Path, wanted: Sequence[Peer] = PEERS) -> Iterator[list[Player]]:
    """Every peer that can be had, and who answers their requests."""
    players: list[Player] = []
    echo = subprocess.Popen(
        [sys.executable, str(SCRIPTS / "echo.py"), str(port)], stdout=subprocess.PIPE
    )
    try:
        assert echo.stdout
        assert echo.stdout.readline() == b"ready\n"
        for peer in wanted:
            python = sys.executable if not peer.needs else _environment(peer, folder)
            if python is None:
                continue
            try:
                players.append(Player(peer, python, port))
            except RuntimeError as error:
                if peer is OURS:
                    raise
                print(f"{peer.name} is left out: {error}")
        yield players
    finally:
        for player in players:
            player.stop()
        echo.kill()
        echo.wait()
        if echo.stdout:
            echo.stdout.close()


def _environment(peer: Peer, folder: Path) -> str | None:
    """The interpreter of an environment that has what the peer needs; made unless it is there."""
    home = folder / peer.folder()
    python = home / "bin" / "python"
    done = home / "done"
    if done.exists():
        return str(python)
    base = _interpreter(peer.python)
    if base is None:
        print(f"{peer.name} is left out: no Python {peer.python[0]}.{peer.python[1]} or later")
        return None
    shutil.rmtree(home, ignore_errors=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # The old setuptools first: it has to be there when what needs it is built.
    tools = [need for need in peer.needs if need.startswith(("setuptools", "wheel"))]
    rest = [need for need in peer.needs if need not in tools]
    steps = [[base, "-m", "venv", str(home)]]
    steps += [[*pip, *tools], [*pip, "--no-build-isolation", *rest]] if tools else [[*pip, *rest]]
    for step in steps:
        ran = subprocess.run(step, capture_output=True, text=True)
        if ran.returncode:
            why = (ran.stderr.strip().splitlines() or ["no reason given"])[-1]
            print(f"{peer.name} is left out: {why}")
            return None
    done.touch()
    return str(python)


def _interpreter(least: tuple[int, int]) -> str | None:
    """A Python of that version or later: this one, one on the path, or one of pyenv's."""
    if sys.version_info[:2] >= least:
        return sys.executable
    named = [shutil.which(f"python3.{minor}") for minor in range(least[1], least[1] + 4)]
    kept = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))
    for python in [*filter(None, named), *map(str, kept)]:
        code = f"import sys; sys.exit(sys.version_info[:2] < {least})"
        if not subprocess.run([python, "-c", code], capture_output=True).returncode:
            return python
    return None
