"""A blocking NATS client for threaded programs.

>>> nc = natsync.connect("nats://127.0.0.1:4222")
>>> nc.request("time", timeout=1).data
b'12:00'
"""

__version__ = "0.1.0"

from ._connect import connect
from ._engine.connection import Stats, Status
from ._engine.pending_queue import Overflow
from .client import Client
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
from .headers import Headers
from .message import Msg
from .protocol import ServerInfo
from .subscription import State, Subscription, SubStats
from .tls import TLS

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
