"""Heartbeats and pings: each side learns whether the other one is still there.

The server sends heartbeats, each of which needs a response; the client sends pings. One thread
handles both: heartbeats and ping responses arrive on subjects of one inbox.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from ..core import Core
from ..errors import ConnectionClosedError, Error, NextMsgTimeoutError
from ..message import is_no_responders
from ..protocol import ProtocolError
from ..protocol.streaming import Ping, PingResponse

if TYPE_CHECKING:
    from ..message import Msg
    from .session import Session

__all__ = ["Liveness"]

Lose = Callable[[str], None]
"""Called with the reason why the connection is lost. Also called after `close`, which the callee
must recognize."""


class Liveness:
    """Answers heartbeats from the start, and pings the server once there is a session."""

    def __init__(self, nc: Core) -> None:
        self._nc = nc
        inbox = nc.new_inbox()
        self.heartbeat_inbox = f"{inbox}.heartbeat"
        self._ping_inbox = f"{inbox}.ping"
        self._inbox = nc.open_inbox(f"{inbox}.*")
        self._thread: threading.Thread | None = None
        self._out = 0

    def start(self, session: Session, lose: Lose) -> None:
        """Starts the thread."""
        name = f"streaming-{session.client_id}"
        self._thread = self._nc.start_thread(name, partial(self._run, session, lose))

    def close(self, timeout: float) -> None:
        """Ends the thread, and waits up to `timeout` seconds until it has ended, unless it is the
        calling thread. The wait is limited because the thread also calls a user's function when the
        connection is lost."""
        self._inbox.unsubscribe()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self, session: Session, lose: Lose) -> None:
        subjects = session.subjects
        pings = bool(subjects.ping_requests and subjects.ping_interval > 0)
        ping = Ping(session.conn_id).to_bytes()
        due = monotonic() + subjects.ping_interval
        while True:
            try:
                msg = self._inbox.next_msg(max(0.0, due - monotonic()) if pings else None)
                lost = self._receive(msg)
            except NextMsgTimeoutError:
                # From now: a process that was suspended must not send all missed pings at once.
                due = monotonic() + subjects.ping_interval
                lost = self._ping(subjects.ping_requests, ping, subjects.ping_max_out)
            except Error as error:  # closed by `close` or with the NATS connection, or refused
                lost = str(error)
            if lost:
                lose(lost)
                return

    def _ping(self, subject: str, ping: bytes, max_out: int) -> str:
        """Sends a ping; returns why the connection is lost, or an empty string."""
        self._out += 1
        if self._out > max_out:
            return f"{max_out} pings without an answer"
        return self._publish(subject, ping, self._ping_inbox)

    def _receive(self, msg: Msg) -> str:
        """Answers a heartbeat, or reads the response to a ping; returns why the connection is lost,
        or an empty string."""
        if msg.subject == self.heartbeat_inbox:
            return self._publish(msg.reply, b"", None) if msg.reply else ""
        if is_no_responders(msg):
            return ""  # not a response: `_ping` counts it as missing
        try:
            error = PingResponse.parse(msg.data).error
        except ProtocolError:
            return ""  # not a response either
        self._out = 0  # not decremented: several partitioned servers may answer one ping
        return error

    def _publish(self, subject: str, data: bytes, reply: str | None) -> str:
        try:
            self._nc.publish(subject, data, reply=reply)
        except ConnectionClosedError as error:
            return str(error)
        except Error:
            return (
                ""  # without a connection at the moment, the other side hears nothing, and counts
            )
        return ""
