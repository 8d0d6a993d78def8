"""A blocking NATS client for threaded programs.

>>> nc = natsync.connect("nats://127.0.0.1:4222")
>>> nc.request("time", timeout=1).data
b'12:00'

    connect             connects to a server, and returns a Client
    Client              publish, subscribe, request, flush, drain, close; for any number of threads
    Subscription        next_msg, iteration, unsubscribe, drain
    Msg, Headers        a message, and its headers
    TLS, TLSState       options for TLS connections, and the state of one
    Overflow            what a full subscription does with more messages
    Status, State       the states of a client and of a subscription
    Stats, SubStats     the counters of a client and of a subscription
    ServerInfo          how the server describes itself (INFO)
    Error               the base of all errors; help("natsync.errors") lists them

Packages, imported at their first use: natsync.jetstream, natsync.kv, natsync.object_store, natsync.micro,
natsync.streaming, natsync.kombu. Tracing and metrics: natsync.instrumentation, natsync.otel. Tests:
natsync.testing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._connect import connect
from ._engine.connection import Stats, Status
from ._engine.pending_queue import Overflow
from ._late import late_import
from .client import Client
from .errors import (
    AuthorizationError,
    BadSubscriptionError,
    CallbacksSkippedError,
    ConnectError,
    ConnectionClosedError,
    ConnectionDrainingError,
    ConnectionReconnectingError,
    ConnectTimeoutError,
    CredentialsError,
    DrainTimeoutError,
    Error,
    FlushTimeoutError,
    ForkedError,
    HandlerError,
    HeadersNotSupportedError,
    InvalidResponseError,
    MaxControlLineError,
    MaxMessagesError,
    MaxPayloadError,
    MsgNoReplyError,
    MsgNotBoundError,
    NextMsgTimeoutError,
    NoRespondersError,
    NoServersError,
    OptionError,
    OutboundBufferLimitError,
    PermissionsViolationError,
    ProtocolError,
    ReentrantCallError,
    RequestTimeoutError,
    SecureConnWantedError,
    ServerError,
    SlowConsumerError,
    StaleConnectionError,
    SubscriptionFullError,
    SyncSubRequiredError,
)
from .headers import Headers
from .message import Msg
from .protocol import ServerInfo
from .subscription import State, Subscription, SubStats
from .tls import TLS, TLSState

__version__ = "0.1.0"

__all__ = [
    "AuthorizationError",
    "BadSubscriptionError",
    "CallbacksSkippedError",
    "Client",
    "ConnectError",
    "ConnectTimeoutError",
    "ConnectionClosedError",
    "ConnectionDrainingError",
    "ConnectionReconnectingError",
    "CredentialsError",
    "DrainTimeoutError",
    "Error",
    "FlushTimeoutError",
    "ForkedError",
    "HandlerError",
    "Headers",
    "HeadersNotSupportedError",
    "InvalidResponseError",
    "MaxControlLineError",
    "MaxMessagesError",
    "MaxPayloadError",
    "Msg",
    "MsgNoReplyError",
    "MsgNotBoundError",
    "NextMsgTimeoutError",
    "NoRespondersError",
    "NoServersError",
    "OptionError",
    "OutboundBufferLimitError",
    "Overflow",
    "PermissionsViolationError",
    "ProtocolError",
    "ReentrantCallError",
    "RequestTimeoutError",
    "SecureConnWantedError",
    "ServerError",
    "ServerInfo",
    "SlowConsumerError",
    "StaleConnectionError",
    "State",
    "Stats",
    "Status",
    "SubStats",
    "Subscription",
    "SubscriptionFullError",
    "SyncSubRequiredError",
    "TLS",
    "TLSState",
    "connect",
]

# Imported when they are first used. `from natsync import *` leaves them out.
if TYPE_CHECKING:
    from . import instrumentation as instrumentation
    from . import jetstream as jetstream
    from . import kombu as kombu
    from . import kv as kv
    from . import micro as micro
    from . import object_store as object_store
    from . import otel as otel
    from . import streaming as streaming
    from . import testing as testing
else:  # type checkers would take it for a module with any name
    _PACKAGES = {
        *("instrumentation", "jetstream", "kombu", "kv", "micro", "object_store"),
        *("otel", "streaming", "testing"),
    }

    def __getattr__(name: str) -> object:
        """Imports a package. Raises AttributeError, which names the extra that is missing."""
        if name not in _PACKAGES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with late_import:
            from importlib import import_module

            try:
                return import_module(f"{__name__}.{name}")
            except ImportError as error:  # which would end `hasattr` and `help`
                raise AttributeError(str(error)) from error

    def __dir__() -> list[str]:
        return sorted({*globals(), *_PACKAGES})
