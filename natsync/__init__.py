"""A blocking NATS client for threaded programs.

>>> nc = natsync.connect("nats://127.0.0.1:4222")
>>> nc.request("time", timeout=1).data
b'12:00'

    connect             connects to a server, and returns a Client
    Client              publish, subscribe, request, flush, drain, close; for any number of threads
    Subscription        next_msg, iteration, unsubscribe, drain
    Msg, Headers        a message, and its headers
    TLS                 options for TLS connections
    Overflow            what a full subscription does with more messages
    Status, State       the states of a client and of a subscription
    Stats, SubStats     the counters of a client and of a subscription
    ServerInfo          how the server describes itself (INFO)
    Error               the base of all errors; help("natsync.errors") lists them

Packages: natsync.jetstream, natsync.kv, natsync.object_store, natsync.micro, natsync.streaming. Tracing and
metrics: natsync.instrumentation, natsync.otel.
"""

from __future__ import annotations

from ._connect import connect
from ._engine.connection import Stats as Stats
from ._engine.connection import Status as Status
from ._engine.pending_queue import Overflow as Overflow
from .client import Client
from .errors import AuthorizationError as AuthorizationError
from .errors import BadSubscriptionError as BadSubscriptionError
from .errors import ConnectError as ConnectError
from .errors import ConnectionClosedError as ConnectionClosedError
from .errors import ConnectionDrainingError as ConnectionDrainingError
from .errors import ConnectionReconnectingError as ConnectionReconnectingError
from .errors import ConnectTimeoutError as ConnectTimeoutError
from .errors import CredentialsError as CredentialsError
from .errors import DrainTimeoutError as DrainTimeoutError
from .errors import Error as Error
from .errors import FlushTimeoutError as FlushTimeoutError
from .errors import ForkedError as ForkedError
from .errors import HandlerError as HandlerError
from .errors import HeadersNotSupportedError as HeadersNotSupportedError
from .errors import InvalidResponseError as InvalidResponseError
from .errors import MaxControlLineError as MaxControlLineError
from .errors import MaxMessagesError as MaxMessagesError
from .errors import MaxPayloadError as MaxPayloadError
from .errors import MsgNoReplyError as MsgNoReplyError
from .errors import MsgNotBoundError as MsgNotBoundError
from .errors import NextMsgTimeoutError as NextMsgTimeoutError
from .errors import NoRespondersError as NoRespondersError
from .errors import NoServersError as NoServersError
from .errors import OptionError as OptionError
from .errors import OutboundBufferLimitError as OutboundBufferLimitError
from .errors import PermissionsViolationError as PermissionsViolationError
from .errors import ProtocolError as ProtocolError
from .errors import ReentrantCallError as ReentrantCallError
from .errors import RequestTimeoutError as RequestTimeoutError
from .errors import SecureConnWantedError as SecureConnWantedError
from .errors import ServerError as ServerError
from .errors import SlowConsumerError as SlowConsumerError
from .errors import StaleConnectionError as StaleConnectionError
from .errors import SubscriptionFullError as SubscriptionFullError
from .errors import SyncSubRequiredError as SyncSubRequiredError
from .headers import Headers
from .message import Msg
from .protocol import ServerInfo as ServerInfo
from .subscription import State as State
from .subscription import Subscription
from .subscription import SubStats as SubStats
from .tls import TLS

__version__ = "0.1.0"

# Leaves out the errors and the types that calls return: with them, `help` would fill a hundred screens.
__all__ = ["Client", "Headers", "Msg", "Subscription", "TLS", "connect"]
