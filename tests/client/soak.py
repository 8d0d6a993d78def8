"""A client on a bad network, for long: `python -m tests.client.soak [SECONDS] [--seed S] [--which old]`.

A real server, the proxy of the tests before it, and one client behind that, which several threads share:
they publish, publish and wait until it is confirmed, request, and take messages. Another thread harms the
connection the way networks and servers do: cuts, stalls, trickles, black holes, servers that refuse or stop.
A second client, which nothing harms, sees what arrives.

Every few seconds all is healed and the accounts must balance: what was published was delivered once, or it
was refused with an error, or it is within the count of messages that the client itself calls unconfirmed.
A confirmed message is never missing. Every reply is that of its request, and every wait ends in time.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

import natsync
from natsync import errors

from tests.support.fake_server import Background
from tests.support.faults import Link
from tests.support.memory import Memory
from tests.support.proxy import Admission, Proxy
from tests.support.servers import NatsServer, Which

EPISODE = 5.0
PATIENCE = 20.0
REQUEST_TIMEOUT = 1.0
LATE = 3.0  # what a wait may take beyond its time, on a machine with much else to do
PUBLISHERS, CONFIRMERS, ASKERS = 3, 1, 2
SIZES = (0, 10, 10, 100, 100, 1000, 20_000)


@dataclass
class Ledger:
    """What became of the messages of one thread; each is named by its number."""

    accepted: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    delivered: Counter[int] = field(default_factory=Counter)


class Soak:
    """One run. Threads work while `_working` is set; the first error of any of them is `failure`."""

    def __init__(self, nc: natsync.Client, witness: natsync.Client, rng: random.Random) -> None:
        self.nc = nc
        self.rng = rng
        self.failure: BaseException | None = None
        self.count: Counter[str] = Counter()
        self.ledgers: dict[str, Ledger] = {}
        self._witness = witness
        self._sub = witness.subscribe("soak.>", pending_msgs_limit=-1, pending_bytes_limit=-1)
        witness.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
        witness.flush()
        self._last = -1
        nc.subscribe("ticks", handler=self._tick)
        self._working = threading.Event()
        self._rest = threading.Event()
        self._idle = threading.Semaphore(0)
        self._ending = False
        self._accounted = 0  # unconfirmed messages that are in the accounts
        self._threads = [
            *(
                Background(partial(self._work, partial(self._publish, n)))
                for n in range(PUBLISHERS)
            ),
            *(
                Background(partial(self._work, partial(self._confirm, n)))
                for n in range(CONFIRMERS)
            ),
            *(Background(partial(self._work, partial(self._ask, n))) for n in range(ASKERS)),
            Background(partial(self._work, self._announce)),
        ]

    def episode(self, proxy: Proxy, server: NatsServer, seconds: float) -> None:
        """Works and harms for so long, then heals and balances."""
        self._rest.clear()
        self._working.set()
        until = monotonic() + seconds
        harm = Harm(proxy, server, self.rng)
        while (left := until - monotonic()) > 0 and not self.failure:
            self.count[harm.do(min(left, self.rng.uniform(0.0, 1.0)), self._rest.wait)] += 1
            self._collect()
        self._working.clear()
        self._rest.set()
        harm.heal()
        for _ in self._threads:
            assert self._idle.acquire(timeout=PATIENCE), "a thread still waits"
        self.check()
        assert self.nc.wait_connected(PATIENCE), "not connected again"
        self._settle()
        self.balance()

    def end(self) -> None:
        """Ends the threads."""
        self._ending = True
        self._working.set()
        for thread in self._threads:
            thread.result(PATIENCE)

    def check(self) -> None:
        """Raises what a thread has failed with."""
        if self.failure:
            raise self.failure

    def balance(self) -> None:
        """The accounts of all that was published so far."""
        stats = self.nc.stats
        missing = 0
        for name, ledger in self.ledgers.items():
            twice = {number for number, times in ledger.delivered.items() if times > 1}
            assert not twice, f"{name}: delivered twice: {sorted(twice)[:10]}"
            phantom = ledger.refused & ledger.delivered.keys()
            assert not phantom, f"{name}: refused, and delivered: {sorted(phantom)[:10]}"
            lost = ledger.accepted - ledger.delivered.keys()
            assert not (lost and "confirm" in name), f"{name}: confirmed, and lost: {lost}"
            missing += len(lost)
            self.count["delivered"] += len(ledger.delivered)
            for part in (ledger.accepted, ledger.refused, ledger.unknown, ledger.delivered):
                part.clear()
        known = stats.unconfirmed_msgs - self._accounted
        self._accounted = stats.unconfirmed_msgs
        self.count["missing"] += missing
        self.count["unconfirmed"] += known
        assert missing <= known, f"{missing} messages are missing, {known} are known to be at risk"

    def _settle(self) -> None:
        """Everything that was accepted is on its way, or lost: brings it in."""
        self.nc.flush(PATIENCE)
        self._witness.flush(PATIENCE)
        self._collect()

    def _collect(self) -> None:
        for msg in self._sub.messages(timeout=0):
            _, name = msg.subject.split(".", 1)
            self.ledgers[name].delivered[int(msg.data.split(b" ", 1)[0])] += 1

    def _work(self, step: Callable[[int], None]) -> None:
        number = 0
        while True:
            self._working.wait()
            if self._ending:
                return
            try:
                while self._working.is_set() and not self.failure:
                    begun = monotonic()
                    step(number)
                    number += 1
                    took = monotonic() - begun
                    assert took < REQUEST_TIMEOUT + LATE, f"{step} took {took:.1f} s"
            except BaseException as error:
                self.failure = error
                self._rest.set()
            self._idle.release()
            if self.failure:
                return
            self._rest.wait()
            # Until the next episode begins.
            while not (self._working.wait(0.05) or self._ending):
                pass

    def _ledger(self, name: str) -> Ledger:
        return self.ledgers.setdefault(name, Ledger())

    def _publish(self, thread: int, number: int) -> None:
        name = f"publish.{thread}"
        ledger = self._ledger(name)
        data = b"%d " % number + bytes(SIZES[number % len(SIZES)])
        try:
            self.nc.publish(f"soak.{name}", data)
            ledger.accepted.add(number)
        except errors.OutboundBufferLimitError:
            ledger.refused.add(number)
            self.count["refused"] += 1
        if not number % 10:
            self._rest.wait(0.01)

    def _confirm(self, thread: int, number: int) -> None:
        name = f"confirm.{thread}"
        ledger = self._ledger(name)
        try:
            self.nc.publish_confirmed(f"soak.{name}", b"%d " % number, timeout=REQUEST_TIMEOUT)
            ledger.accepted.add(number)
            self.count["confirmed"] += 1
        except errors.Error:
            ledger.unknown.add(number)
            self._rest.wait(0.01)

    def _ask(self, thread: int, number: int) -> None:
        data = b"%d/%d" % (thread, number)
        try:
            if number % 2:
                reply = self.nc.request("echo", data, timeout=REQUEST_TIMEOUT)
            else:
                reply = self.nc.request_async("echo", data, timeout=REQUEST_TIMEOUT).result()
            assert reply.data == data, f"the reply to {data!r} is {reply.data!r}"
            self.count["replies"] += 1
        except errors.Error:
            self.count["no reply"] += 1
            self._rest.wait(0.01)

    def _announce(self, number: int) -> None:
        self._witness.publish("ticks", b"%d" % number)
        self.count["announced"] += 1
        self._rest.wait(0.0005)

    def _tick(self, msg: natsync.Msg) -> None:
        number = int(msg.data)
        if number <= self._last and not self.failure:
            self.failure = AssertionError(f"{number} came after {self._last}")
        self._last = number
        self.count["ticks"] += 1


class Harm:
    """What is done to the network, one thing at a time."""

    def __init__(self, proxy: Proxy, server: NatsServer, rng: random.Random) -> None:
        self._proxy = proxy
        self._server = server
        self._dice = rng
        self.refusals = [
            Admission.REFUSE,
            Admission.HANG_UP,
            Admission.RESET,
            Admission.SWALLOW,
        ]

    def do(self, seconds: float, wait: Callable[[float], object]) -> str:
        """Something, for up to so many seconds; returns what. In the end all is well again."""
        deed = self._dice.choice(
            (
                self._nothing,
                self._cut,
                self._cut_inside,
                self._slow,
                self._hold,
                self._refuse,
                self._stop,
            )
        )
        what = deed()
        wait(seconds)
        self.heal()
        return what

    def heal(self) -> None:
        """All is well again."""
        self._server.signal(signal.SIGCONT)
        self._proxy.admit(Admission.FORWARD)
        self._proxy.forget_closed()
        for link in self._links():
            link.to_server.resume()
            link.to_client.resume()

    def _links(self) -> list[Link]:
        return [link for link in self._proxy.links if not link.closed]

    def _stream(self, link: Link) -> str:
        return self._dice.choice(("to_server", "to_client"))

    def _nothing(self) -> str:
        return "nothing"

    def _cut(self) -> str:
        reset = self._dice.random() < 0.5
        self._proxy.cut(reset=reset)
        return "reset" if reset else "cut"

    def _cut_inside(self) -> str:
        for link in self._links():
            with link.command():
                stream = getattr(link, self._stream(link))
                at = stream.passed + self._dice.randrange(1, 100_000)
                stream._cut_at = at, self._dice.random() < 0.5
        return "cut inside"

    def _slow(self) -> str:
        for link in self._links():
            stream = getattr(link, self._stream(link))
            if self._dice.random() < 0.5:
                stream.trickle(self._dice.randrange(1, 2000), 0.001)
            else:
                stream.delay(self._dice.uniform(0.0, 0.2))
        return "slow"

    def _hold(self) -> str:
        """Longer than the keep-alive allows, at times."""
        swallow = self._dice.random() < 0.3
        for link in self._links():
            stream = getattr(link, self._stream(link))
            if (
                swallow
            ):  # what is dropped inside a stream garbles it: so the connection must end with it
                link.to_server.swallow()
                link.to_client.swallow()
            else:
                stream.stall(reading=self._dice.random() < 0.5)
        if swallow:
            for link in self._links():
                link.cut(reset=True)
        return "black hole" if swallow else "stall"

    def _refuse(self) -> str:
        admission = self._dice.choice(self.refusals)
        self._proxy.admit(admission)
        self._proxy.cut(reset=self._dice.random() < 0.5)
        return admission.name.lower()

    def _stop(self) -> str:
        self._server.signal(signal.SIGSTOP)
        return "stopped server"


def run(seconds: float, seed: int, which: Which = "current") -> Counter[str]:
    """Works for so long; returns what happened how often, or raises what went wrong."""
    faulthandler.enable()
    logging.getLogger("natsync").setLevel(logging.CRITICAL)
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    memory = Memory()
    rng = random.Random(seed)
    with NatsServer(which=which) as server, Proxy(server.host, server.port) as proxy:
        with (
            natsync.connect(server.url, ping_interval=1000.0) as witness,
            natsync.connect(
                proxy.url,
                connect_timeout=1.0,
                write_timeout=REQUEST_TIMEOUT,
                ping_interval=0.3,
                reconnect_wait=0.01,
                reconnect_max_wait=0.3,
                reconnect_buffer=1 << 20,
            ) as nc,
        ):
            soak = Soak(nc, witness, rng)
            until = monotonic() + seconds
            try:
                while (left := until - monotonic()) > 0:
                    faulthandler.dump_traceback_later(4 * PATIENCE, exit=True)
                    soak.episode(proxy, server, min(EPISODE, left))
                    memory.look()
            finally:
                soak.end()
                faulthandler.cancel_dump_traceback_later()
            soak.count["reconnects"] = nc.stats.reconnects
    print(memory)
    left_over = len(os.listdir("/proc/self/fd")), threading.active_count()
    assert left_over == (descriptors, threads), f"descriptors, threads: {left_over}"
    return soak.count


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.client.soak", description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=60.0)
    parser.add_argument(
        "--seed", type=int, default=None, help="the random numbers of an earlier run"
    )
    parser.add_argument("--which", choices=("current", "old"), default="current")
    parsed = parser.parse_args(arguments)
    seed = random.randrange(2**32) if parsed.seed is None else parsed.seed
    print(f"seed {seed}", flush=True)
    count = run(parsed.seconds, seed, parsed.which)
    for what, times in sorted(count.items()):
        print(f"{times:10,} {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
