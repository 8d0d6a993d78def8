"""The client beside those of others: every figure in one run, on one real server, in alternating rounds.

Each row is printed with its rates, the CPU time of a message and the ratio to each peer; `wanted` is what we
want to reach, `sure` is what we claim, and is asserted: less than wanted where a shared machine is too
noisy to be strict, nothing where we are not there yet. Peers and their installation: `ensemble`.
The least there is, a bare socket, shows how much of a row is the machine's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bench.ensemble import (
    BLOCKING,
    CORE,
    GOING,
    NATS_PY,
    OURS,
    UVLOOP,
    Peer,
    Player,
    Taken,
    alternating,
    ensemble,
)
from tests.bench.rounds import machine
from tests.support.servers import NatsServer, require_server

pytestmark = [pytest.mark.bench, pytest.mark.server, pytest.mark.timeout(600)]

ROUNDS = 4


@dataclass(frozen=True)
class Claim:
    """How many times as good as `peer` we want to be, and are for sure."""

    peer: Peer
    wanted: float
    sure: float | None = None


@dataclass(frozen=True)
class Row:
    """A game and its claims. `cpu` and `delay`: what a message should take at most, in microseconds, told
    only: another machine has other figures."""

    title: str
    game: str
    size: int
    claims: tuple[Claim, ...]
    cpu: float | None = None
    delay: float | None = None


ROWS = (
    Row("publish, 16 B", "publish", 16, (Claim(CORE, 1.1),), cpu=0.75),
    Row("publish, 128 B", "publish", 128, (Claim(CORE, 1.1),), cpu=0.75),
    Row("publish, 1 KiB", "publish", 1024, (Claim(CORE, 1.1),)),
    Row("publish, 16 KiB", "publish", 16384, (Claim(UVLOOP, 1.25), Claim(GOING, 1.0))),
    # Where nothing repeats; `size` is the mean.
    Row("publish, 20,000 subjects", "publish_varied", 200, (Claim(CORE, 1.1), Claim(NATS_PY, 1.1))),
    Row("publish, any size", "publish_sized", 3000, (Claim(CORE, 1.1),)),
    Row("publish, new reply", "publish_reply", 200, (Claim(CORE, 1.1),)),
    Row("publish, new headers", "publish_headers", 300, (Claim(NATS_PY, 1 / 0.6),)),
    Row("receive, all new", "receive_varied", 200, (Claim(NATS_PY, 1.6),)),
    Row("receive, 16 B", "receive", 16, (Claim(NATS_PY, 1.8, 1.5), Claim(GOING, 1.2, 1.1))),
    Row("receive, 128 B", "receive", 128, (Claim(NATS_PY, 1.8, 1.5), Claim(GOING, 1.2, 1.1))),
    Row("receive, 1 KiB", "receive", 1024, (Claim(NATS_PY, 1.35, 1.1),)),
    Row("receive, 16 KiB", "receive", 16384, (Claim(NATS_PY, 1.2, 1.15),)),
    Row("next_msg, 128 B", "next_msg", 128, (Claim(NATS_PY, 8.0, 5.0),)),
    Row("request, one caller", "request", 16, (Claim(GOING, 1.2),), delay=85.0),
    Row("request, 16 threads", "threads", 16, (Claim(BLOCKING, 1.4), Claim(UVLOOP, 1.0))),
    Row("request, 16 in flight", "flight", 16, (Claim(UVLOOP, 2.0),)),
    Row("one-way delay", "delay", 16, (Claim(NATS_PY, 1 / 0.9),)),
)


@pytest.fixture(scope="module")
def players(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Player]]:
    require_server("current")
    # In an environment that `make bench` makes, the peers go with it.
    kept = sys.prefix != sys.base_prefix
    folder = Path(sys.prefix) / "peers" if kept else tmp_path_factory.mktemp("peers")
    with NatsServer('ping_interval: "1h"') as server, ensemble(server.port, folder) as players:
        print(f"\n\nClient, nats-server {server.version}, {machine()}")
        yield players


def ratio(row: Row, ours: Taken, theirs: Taken) -> float:
    """How many times as good we are: in rate, or where only the delay counts, in that."""
    return theirs.delay / ours.delay if row.game == "delay" else ours.rate / theirs.rate


def table(row: Row, taken: dict[str, Taken]) -> str:
    ours = taken[OURS.name]
    lines = [f"\n{row.title}"]
    for name, each in taken.items():
        delay = f"{each.delay:10.1f} us p50" if each.delay else ""
        less = each.cpu / ours.cpu
        times = "" if each is ours else f"   x {ratio(row, ours, each):.2f}, CPU x {less:.2f}"
        lines.append(f"  {name:26}{each.rate:12,.0f} a second{each.cpu:9.2f} us CPU{delay}{times}")
    if row.cpu:
        lines.append(f"  wanted: {row.cpu} us CPU at most, has {ours.cpu:.2f}")
    if row.delay:
        lines.append(f"  wanted: p50 of {row.delay} us at most, has {ours.delay:.1f}")
    for claim in row.claims:
        theirs = taken.get(claim.peer.name)
        has = f"has {ratio(row, ours, theirs):.2f}" if theirs else "it is not here"
        lines.append(f"  wanted: {claim.wanted:.2f} x {claim.peer.name}, {has}")
    return "\n".join(lines)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.title)
def test_speed(row: Row, players: list[Player]) -> None:
    taken = alternating(players, row.game, row.size, ROUNDS)
    print(table(row, taken))
    for claim in row.claims:
        if claim.sure and claim.peer.name in taken:
            ours, theirs = taken[OURS.name], taken[claim.peer.name]
            # Wall time says nothing while others use the machine; CPU time says enough then.
            assert max(ratio(row, ours, theirs), theirs.cpu / ours.cpu) >= claim.sure
