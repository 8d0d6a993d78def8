"""The reconnect policy: which server to try next, and after what delay, by the rules of the options or by
functions of the program.

Functions of the program run on a helper thread, within a time limit. If one fails, the error is reported;
the delay is then `reconnect_max_wait`, or the pool's order decides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from os import urandom  # `random` would be a thirtieth of `import natsync`
from time import monotonic

from ..errors import Error, OptionError
from ..options import MAX_WAIT, Options
from ..protocol import ServerInfo
from .dialer import Dialer
from .servers import Backoff, ServerPool

__all__ = ["ReconnectPolicy"]

_JITTER = 0.25  # of the delay, so that the clients of a lost server do not all come back at once


class ReconnectPolicy:
    """For the I/O thread. `check` raises when the client is closed, which ends every wait."""

    def __init__(
        self,
        options: Options,
        pool: ServerPool,
        dialer: Dialer,
        check: Callable[[], None],
        report: Callable[[Error], None],
    ) -> None:
        self._options = options
        self._pool = pool
        self._dialer = dialer
        self._check = check
        self._report = report

    def delay(self) -> float:
        """Returns the seconds to wait before the next round of attempts; there is no wait before the
        first."""
        wait, longest = self._options.reconnect_wait, self._options.reconnect_max_wait
        rounds = self._pool.rounds
        if not callable(wait):
            return Backoff(wait, longest, _JITTER).delay(rounds, urandom(1)[0] / 256)
        if not rounds:
            return 0.0
        try:
            until = monotonic() + longest
            delay = float(self._dialer.run_blocking(partial(wait, rounds), until, self._check))
            if not delay >= 0:
                raise ValueError(f"{delay} is not a number of seconds")
            return min(delay, MAX_WAIT)
        except BaseException as error:  # code of the program may raise anything
            self._failed("reconnect_wait", error)
            return longest

    def select(self, until: float, info: ServerInfo) -> None:
        """Lets the function of the program, if there is one, choose the next server."""
        select, servers = self._options.select_server, self._pool.servers
        if not select or not servers:
            return
        try:
            names = [str(server) for server in servers]
            choice = self._dialer.run_blocking(partial(select, names, info), until, self._check)
            if choice is not None and not self._pool.prefer(choice):
                raise ValueError(f"{choice!r} is not one of the known servers")
        except BaseException as error:  # as above
            self._failed("select_server", error)

    def _failed(self, option: str, cause: BaseException) -> None:
        self._check()
        report = OptionError(option, f"the function failed: {cause or 'it took too long'}")
        report.__cause__ = cause
        self._report(report)
