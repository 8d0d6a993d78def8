"""The session with a streaming server: the request that opens it, its subjects, and why it ended.

A session belongs to a client id, not to a TCP connection: it survives a reconnect of the NATS
connection, and a restart of a streaming server with its store.
"""

from __future__ import annotations

import re
import secrets
from typing import TypeVar

from .._checks import check_text, plain
from ..core import Core
from ..errors import (
    Error,
    NoRespondersError,
    OptionError,
    RequestTimeoutError,
    fresh,
)
from ..protocol.streaming import (
    ConnectRequest,
    ConnectResponse,
    StreamingMessage,
    is_channel,
)
from .errors import InvalidChannelError, ResponseError, UnknownClusterError, read, refused

__all__ = ["PROTOCOL", "Session", "check_channel", "open_session"]

PROTOCOL = 1
"""The protocol version in which clients ping the server (stan.go: protocolOne)."""

_CLIENT_ID = re.compile(r"[a-zA-Z0-9_-]+")  # nats-streaming-server: server.go, clientIDRegEx
_M = TypeVar("_M", bound=StreamingMessage)


def check_channel(channel: str) -> None:
    """Raises InvalidChannelError for a name that no channel may have, TypeError for anything but a
    str."""
    check_text(channel=channel)
    if not is_channel(channel):
        raise InvalidChannelError(channel)


class Session:
    """The state shared by everything on one connection to a streaming server."""

    def __init__(
        self, nc: Core, client_id: str, conn_id: bytes, subjects: ConnectResponse, timeout: float
    ) -> None:
        self.nc = nc
        self.client_id = client_id
        self.conn_id = conn_id
        self.subjects = subjects
        self.timeout = timeout
        self.ended: Error | None = None
        """The error that ended the session, or None."""

    def check(self) -> None:
        """Raises the error that ended the session, if it has ended."""
        if self.ended:
            raise fresh(self.ended)

    def ask(self, operation: str, subject: str, request: StreamingMessage, answer: type[_M]) -> _M:
        """Sends a request, and returns the server's response. Raises RefusedError, ResponseError,
        and the errors of `Core.request`."""
        reply = self.nc.request(subject, request.to_bytes(), timeout=self.timeout)
        message = read(answer, subject, reply.data)
        text = getattr(message, "error")
        if text:
            raise refused(operation, text)
        return message


def open_session(
    nc: Core,
    cluster_id: str,
    client_id: str,
    heartbeat_inbox: str,
    *,
    prefix: str,
    pings: tuple[int, int],
    timeout: float,
) -> Session:
    """Registers `client_id`. `pings` holds the ping interval in seconds and the most pings that may
    be unanswered.

    Raises OptionError, UnknownClusterError, DuplicateClientError and other RefusedErrors,
    ResponseError.
    """
    if not is_channel(cluster_id):  # it becomes part of subjects
        raise OptionError("cluster_id", f"{cluster_id!r} cannot be a part of a subject")
    if not _CLIENT_ID.fullmatch(client_id):
        raise OptionError("client_id", f"{client_id!r} is not only letters, digits, - and _")
    conn_id = secrets.token_urlsafe(16).encode()
    request = ConnectRequest(client_id, heartbeat_inbox, PROTOCOL, conn_id, *pings)
    subject = f"{plain(prefix)}.{plain(cluster_id)}"
    operation = f"connecting client {client_id!r} to cluster {cluster_id!r}"
    session = Session(nc, client_id, conn_id, ConnectResponse(), timeout)
    try:
        session.subjects = session.ask(operation, subject, request, ConnectResponse)
    except NoRespondersError as error:
        raise UnknownClusterError(cluster_id, f"nobody listens on {subject}") from error
    except RequestTimeoutError as error:
        raise UnknownClusterError(cluster_id, f"no answer within {timeout:g} s") from error
    if not (session.subjects.pub_prefix and session.subjects.sub_requests):
        raise ResponseError(subject, "ConnectResponse without subjects")
    return session
