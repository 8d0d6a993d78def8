"""NATS Streaming (STAN): publish to and subscribe to channels of a nats-streaming-server.

For programs that still talk to one; its server is no longer developed, and JetStream has taken its place.

>>> sc = natsync.streaming.connect("test-cluster", "orders-1", servers="nats://127.0.0.1:4222")
>>> sc.publish("orders", b"one")
"""

from ..protocol.streaming import StartPosition
from .connection import StreamingConnection, connect
from .errors import (
    ConnectionLostError,
    DuplicateClientError,
    DuplicateDurableError,
    InvalidChannelError,
    ManualAckError,
    PubAckTimeoutError,
    RefusedError,
    ResponseError,
    StreamingError,
    UnknownClientError,
    UnknownClusterError,
    UnsupportedError,
)
from .message import Msg
from .publisher import PubAckFuture
from .subscription import Subscription

__all__ = [
    "ConnectionLostError",
    "DuplicateClientError",
    "DuplicateDurableError",
    "InvalidChannelError",
    "ManualAckError",
    "Msg",
    "PubAckFuture",
    "PubAckTimeoutError",
    "RefusedError",
    "ResponseError",
    "StartPosition",
    "StreamingConnection",
    "StreamingError",
    "Subscription",
    "UnknownClientError",
    "UnknownClusterError",
    "UnsupportedError",
    "connect",
]
