"""Everything at once that makes clients hang: `python -m tests.client.chaos [SECONDS] [--seed S]`.

One client on the bad network of `soak`. The main thread makes calls of all kinds; a timer's signal handler
makes others in the middle of them, and at times raises; finalizers of cyclic garbage call on whichever
thread the collector runs; worker threads and the threads of an executor use the client, too; consumers are
slower than what comes; and the process forks children that go on with the inherited client.

Every few seconds all is healed and the accounts must balance: what was published arrived once, or was
refused, or is within the count of messages that the client calls unconfirmed; each subscription has
received what it delivered, dropped or keeps; each child has done its work. In the end no thread, descriptor
or lock is lost.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import logging
import os
import random
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from time import monotonic

import natsync
from natsync import errors

from tests.client.soak import PATIENCE, Harm
from tests.support.fake_server import Background
from tests.support.memory import Memory
from tests.support.proxy import Admission, Proxy
from tests.support.servers import NatsServer
from tests.support.waiting import eventually

EPISODE = 5.0
TIMEOUT = 1.0
CHILD_TIMEOUT = 40.0
WORKERS = 3
DEPTH = 3  # signal handlers that interrupt each other


class Interrupt(Exception):
    """Raised by the signal handler, as programs limit the time of a task."""


class Garbage:
    """A cycle that only the collector finds, and that calls when it does."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call
        self.me = self

    def __del__(self) -> None:
        self.call()


class Chaos:
    """One run."""

    def __init__(
        self,
        nc: natsync.Client,
        witness: natsync.Client,
        rng: random.Random,
        pool: ThreadPoolExecutor,
    ) -> None:
        self.nc = nc
        self.count: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self._witness = witness
        self._dice = rng
        self._numbers = count()
        self._accepted: set[int] = set()
        self._refused: set[int] = set()
        self._delivered: Counter[int] = Counter()
        self._done_by: set[int] = set()  # processes
        self._children: list[int] = []
        self._accounted = 0  # unconfirmed messages that are in the accounts
        self._armed = self._is_child = False
        self._depth = 0
        self._asides: dict[object, str] = {}  # calls of finalizers and signal handlers under way
        self._working, self._resting = threading.Event(), threading.Event()
        self._arrived = witness.subscribe("count", pending_msgs_limit=-1, pending_bytes_limit=-1)
        self._reported = witness.subscribe("child")
        witness.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
        witness.flush()
        self._own = nc.subscribe("own", pending_msgs_limit=100, overflow="drop_old")
        self._subs = [
            self._own,
            nc.subscribe("count", pending_msgs_limit=20),
            nc.subscribe("count", handler=self._slowly, pending_msgs_limit=20, overflow="drop_old"),
            nc.subscribe("count", handler=self._slowly, executor=pool, workers=2),
            nc.subscribe("own", handler=self._slowly, pending_msgs_limit=20, overflow="block"),
        ]
        self._calls: list[Callable[[], object]] = [
            partial(self._publish, 20),
            lambda: self._publish(1),
            lambda: nc.request("echo", b"x", timeout=TIMEOUT),
            lambda: nc.request_async("echo", b"x", timeout=TIMEOUT).result(PATIENCE),
            lambda: [*nc.request_many("echo", max_msgs=1, timeout=TIMEOUT)],
            lambda: nc.flush(TIMEOUT),
            lambda: nc.publish_confirmed("confirmed", timeout=TIMEOUT),
            lambda: (nc.publish("own"), self._own.next_msg(0.01)),
            lambda: [*self._own.messages(timeout=0)],
            lambda: nc.subscribe("other").unsubscribe(),
            lambda: (nc.stats, [sub.stats for sub in self._subs]),
        ]
        signal.signal(signal.SIGALRM, self._alarm)

    def episode(self, harm: Harm, seconds: float) -> None:
        """Works and harms for so long, then heals and balances."""
        until = monotonic() + seconds
        self._working.set()
        threads = [Background(partial(self._harm, harm))]
        threads += [
            Background(partial(self._work, random.Random(self._dice.random())))
            for _ in range(WORKERS)
        ]
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        while monotonic() < until and not self.failure:
            if self._dice.random() < 0.02:
                self._fork()
            self._step(self._dice, interrupts=True)
            self._resting.wait(0.002)
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._working.clear()
        for thread in threads:
            thread.result(PATIENCE)
        harm.heal()
        eventually(lambda: not self._asides)
        gc.collect()
        self._reap()
        if self.failure:
            raise self.failure
        self._balance()

    def _step(self, rng: random.Random, interrupts: bool = False) -> None:
        """One call, or new garbage."""
        if rng.random() < 0.2:
            Garbage(partial(self._aside, "finalizer", rng.choice(self._calls)))
            return
        try:
            self._armed |= interrupts
            rng.choice(self._calls)()
            self.count["calls"] += 1
        except Interrupt:
            self.count["interrupts"] += 1
        except errors.Error:
            self.count["calls that raised"] += 1
        finally:
            if interrupts:
                self._armed = False

    def _alarm(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._dice.uniform(0.0001, 0.01))
        if self._armed and self._dice.random() < 0.5:
            self._armed = False
            raise Interrupt
        if (
            self._depth < DEPTH
        ):  # else a call that waits for an outage to end would be buried in others
            self._depth += 1
            armed, self._armed = self._armed, False
            self._aside("signal", self._dice.choice(self._calls))
            self._armed = armed
            self._depth -= 1

    def _aside(self, what: str, call: Callable[[], object]) -> None:
        """A call in the middle of another one: it works, or says at once why it does not."""
        if self._is_child:
            return
        calls = self._asides
        token = object()
        calls[token] = what
        try:
            if not self._working.is_set():  # the accounts are being balanced
                return
            call()
            self.count[f"calls of a {what}"] += 1
        except errors.ReentrantCallError:
            self.count[f"calls of a {what} that were refused"] += 1
        except (errors.Error, Interrupt):
            self.count[f"calls of a {what} that raised"] += 1
        except BaseException as error:
            self._fail(error)
        finally:
            calls.pop(token, None)

    def _fail(self, error: BaseException) -> None:
        if not self.failure:
            self.failure = error
            faulthandler.dump_traceback()

    def _publish(self, many: int) -> None:
        for _ in range(many):
            number = next(self._numbers)
            try:
                self.nc.publish("count", b"%d" % number)
                self._accepted.add(number)
            except errors.OutboundBufferLimitError:
                self._refused.add(number)

    def _slowly(self, msg: natsync.Msg) -> None:
        self._resting.wait(0.002)
        self.count["handled"] += 1

    def _work(self, rng: random.Random) -> None:
        """What another thread does."""
        try:
            while self._working.is_set() and not self.failure:
                self._step(rng)
                self._resting.wait(0.01)
        except BaseException as error:
            self._fail(error)

    def _harm(self, harm: Harm) -> None:
        while self._working.is_set():
            self._resting.wait(self._dice.uniform(0.0, 1.0))
            if self._dice.random() < 0.3:
                self.nc.reconnect()
            else:
                self.count[harm.do(self._dice.uniform(0.0, 0.5), self._resting.wait)] += 1

    def _fork(self) -> None:
        child = os.fork()
        if child:
            self._children.append(child)
            return
        status = 1
        try:
            self._is_child = True
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            gc.disable()
            status = self._be_child()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def _be_child(self) -> int:
        """Goes on with the client of its parent, on the same bad network."""
        until, why = monotonic() + CHILD_TIMEOUT, ""
        while monotonic() < until:
            try:
                assert self.nc.request("echo", b"child", timeout=TIMEOUT).data == b"child"
                self.nc.publish_confirmed("child", b"%d" % os.getpid(), timeout=TIMEOUT)
                self.nc.close()
                return 0
            except errors.Error as error:
                why = repr(error)
                self._resting.wait(0.05)
        print(f"the child {os.getpid()}: {why}", file=sys.stderr)
        return 2

    def _reap(self) -> None:
        for child in self._children:
            until = monotonic() + CHILD_TIMEOUT + PATIENCE
            while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
                self._resting.wait(0.01)
                if monotonic() > until:
                    os.kill(child, signal.SIGUSR1)  # it shows where it hangs
                    self._resting.wait(1.0)
                    os.kill(child, signal.SIGKILL)
                    raise AssertionError("a child hangs")
            assert ended[1] == 0, f"a child ended with {os.waitstatus_to_exitcode(ended[1])}"
        self.count["children"] += len(self._children)

    def _flushed(self) -> bool:
        """Whether the server has everything; a connection that the outage has cut may be noticed only now."""
        assert self.nc.wait_connected(PATIENCE), "not connected again"
        try:
            self.nc.flush(PATIENCE)
        except errors.ConnectionReconnectingError:
            self.count["balances after a loss noticed late"] += 1
            return False
        return True

    def _balance(self) -> None:
        eventually(self._flushed)
        self._witness.flush(PATIENCE)
        self._delivered.update(int(msg.data) for msg in self._arrived.messages(timeout=0))
        self._done_by.update(int(msg.data) for msg in self._reported.messages(timeout=0))
        assert self._done_by >= {*self._children}, "a child has not done its work"
        self._children.clear()
        twice = [number for number, times in self._delivered.items() if times > 1]
        assert not twice, f"delivered twice: {twice[:10]}"
        phantom = self._refused & self._delivered.keys()
        assert not phantom, f"refused, and delivered: {sorted(phantom)[:10]}"
        missing = len(self._accepted - self._delivered.keys())
        at_risk = self.nc.stats.unconfirmed_msgs - self._accounted
        assert (
            missing <= at_risk
        ), f"{missing} messages are missing, {at_risk} are known to be at risk"
        self._accounted += at_risk
        self.count.update(
            published=len(self._accepted),
            delivered=len(self._delivered),
            missing=missing,
            unconfirmed=at_risk,
        )
        for part in (self._accepted, self._refused, self._delivered):
            part.clear()
        for sub in self._subs:
            had = sub.stats
            assert had.received == had.delivered + had.dropped + had.pending_msgs, (
                sub.subject,
                had,
            )


def run(seconds: float, seed: int) -> Counter[str]:
    """Works for so long; returns what happened how often, or raises what went wrong."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    logging.getLogger("natsync").setLevel(logging.CRITICAL)
    gc.set_threshold(50)
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    rng, memory = random.Random(seed), Memory()
    with NatsServer() as server, Proxy(server.host, server.port) as proxy:
        with (
            ThreadPoolExecutor(4) as pool,
            natsync.connect(server.url, ping_interval=1000.0) as witness,
            natsync.connect(
                proxy.url,
                connect_timeout=TIMEOUT,
                write_timeout=TIMEOUT,
                ping_interval=0.3,
                reconnect_wait=0.01,
                reconnect_max_wait=0.3,
            ) as nc,
        ):
            chaos = Chaos(nc, witness, rng, pool)
            harm = Harm(proxy, server, rng)
            harm.refusals.remove(
                Admission.REFUSE
            )  # while a child has a copy of it, a socket listens on
            until = monotonic() + seconds
            while (left := until - monotonic()) > 0:
                faulthandler.dump_traceback_later(6 * PATIENCE, exit=True)
                chaos.episode(harm, min(EPISODE, left))
                memory.look()
            faulthandler.cancel_dump_traceback_later()
            chaos.count["reconnects"] = nc.stats.reconnects
            lock = nc._connection.lock
    print(memory)
    assert Background(
        lambda: lock.acquire(timeout=PATIENCE) and not lock.release()
    ).result(), "lost"
    left_over = len(os.listdir("/proc/self/fd")), threading.active_count()
    assert left_over == (descriptors, threads), f"descriptors, threads: {left_over}"
    return chaos.count


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.client.chaos", description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=60.0)
    parser.add_argument(
        "--seed", type=int, default=None, help="the random numbers of an earlier run"
    )
    parsed = parser.parse_args(arguments)
    seed = random.randrange(2**32) if parsed.seed is None else parsed.seed
    print(f"seed {seed}", flush=True)
    for what, times in sorted(run(parsed.seconds, seed).items()):
        print(f"{times:10,} {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
