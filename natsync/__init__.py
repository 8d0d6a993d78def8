"""A blocking NATS client for threaded programs.

>>> nc = natsync.connect("nats://127.0.0.1:4222")
>>> nc.request("time", timeout=1).data
b'12:00'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .errors import (
    AuthorizationError,
    BadSubscriptionError,
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
from .protocol import ServerInfo

if TYPE_CHECKING:
    from ._connect import connect
    from ._engine.connection import Stats, Status
    from ._engine.pending_queue import Overflow
    from .client import Client
    from .headers import Headers
    from .message import Msg
    from .subscription import State, Subscription, SubStats
    from .tls import TLS

__version__ = "0.1.0"

__all__ = [
    "TLS",
    "AuthorizationError",
    "BadSubscriptionError",
    "Client",
    "ConnectError",
    "ConnectTimeoutError",
    "ConnectionClosedError",
    "CredentialsError",
    "ConnectionDrainingError",
    "ConnectionReconnectingError",
    "DrainTimeoutError",
    "Error",
    "FlushTimeoutError",
    "ForkedError",
    "HandlerError",
    "Headers",
    "HeadersNotSupportedError",
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
    "SubscriptionFullError",
    "State",
    "Stats",
    "Status",
    "SubStats",
    "Subscription",
    "SyncSubRequiredError",
    "connect",
]

# Loaded when they are first used (PEP 562), so that `natsync.protocol` can be used without the client.
_MODULE_OF = {
    "TLS": "tls",
    "Client": "client",
    "Headers": "headers",
    "Msg": "message",
    "Overflow": "_engine.pending_queue",
    "State": "subscription",
    "Stats": "_engine.connection",
    "Status": "_engine.connection",
    "SubStats": "subscription",
    "Subscription": "subscription",
    "connect": "_connect",
}
_MODULES = ("client", "headers", "message", "options", "subscription", "tls")

if not TYPE_CHECKING:  # a type checker would take any name for one of these

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return import_module(f".{name}", __name__)
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULE_OF, *_MODULES})
