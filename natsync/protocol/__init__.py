"""The NATS frame codec: bytes to frames and back, for every kind of connection. No I/O, no clock.

>>> decoder = Decoder(Role.SERVER)
>>> decoder.feed(b"MSG orders.new 1 5\\r\\nhello\\r\\n")
>>> decoder.read()
[Msg(subject=b'orders.new', sid=b'1', reply=b'', payload=b'hello')]

The messages of NATS Streaming, which are payloads of core NATS, are in `natsync.protocol.streaming`.
"""

from .decoder import Decoder
from .encoder import encode
from .errors import Error, ProtocolError
from .frames import (
    ASub,
    AUnsub,
    Connect,
    Context,
    Err,
    Frame,
    HMsg,
    HPub,
    Info,
    Kind,
    LMsg,
    LSub,
    LUnsub,
    Message,
    Msg,
    Ok,
    Ping,
    Pong,
    Pub,
    RHMsg,
    RMsg,
    Role,
    RSub,
    RUnsub,
    Sub,
    Unsub,
)
from .grammar import Grammar, Limits
from .handshake import SECRETS, ConnectOptions, ServerInfo, kind_of_connect, kind_of_info
from .headers import HeaderBlock, build_headers, parse_headers
from .server_errors import Violation, closes, read_violation
from .subjects import (
    are_plain,
    check_publish,
    check_queue,
    check_subscribe,
    is_literal,
    matches,
)

__all__ = [
    "ASub",
    "AUnsub",
    "Connect",
    "ConnectOptions",
    "Context",
    "Decoder",
    "Err",
    "Error",
    "Frame",
    "Grammar",
    "HMsg",
    "HPub",
    "HeaderBlock",
    "Info",
    "Kind",
    "LMsg",
    "LSub",
    "LUnsub",
    "Limits",
    "Message",
    "Msg",
    "Ok",
    "Ping",
    "Pong",
    "ProtocolError",
    "Pub",
    "RHMsg",
    "RMsg",
    "RSub",
    "RUnsub",
    "Role",
    "SECRETS",
    "ServerInfo",
    "Sub",
    "Unsub",
    "Violation",
    "are_plain",
    "build_headers",
    "check_publish",
    "check_queue",
    "check_subscribe",
    "closes",
    "encode",
    "is_literal",
    "kind_of_connect",
    "kind_of_info",
    "matches",
    "parse_headers",
    "read_violation",
]
