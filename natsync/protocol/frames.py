"""One class per NATS operation, for all four kinds of connection, and classes for their context.

A frame is one operation: its control line and, for the message operations, its body. Fields hold the
bytes of the wire, undecoded; an absent field is empty (`b""`, `()`, 0 or None). `offset` (of the first
byte in the sender's stream) and `total_bytes` (on the wire, line ends included) are set by the decoder
and take no part in equality. Treat frames as read-only: their fields are shared with other frames.

Grammar: https://docs.nats.io/reference/reference-protocols/nats-protocol for clients; the server's
parser.go, route.go, gateway.go and leafnode.go for the links between servers.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, TypeVar

from .structs import Struct, field

_F = TypeVar("_F", bound="Frame")


class Role(Enum):
    """The side that writes the bytes: CLIENT opened the TCP connection, SERVER accepted it.

    On a link between servers CLIENT is the soliciting server.
    """

    CLIENT = "client"
    SERVER = "server"


class Kind(Enum):
    """The kinds of NATS connections. The same bytes mean different things on each."""

    CLIENT = "client"
    ROUTE = "route"
    GATEWAY = "gateway"
    LEAFNODE = "leafnode"


class Context(Struct, frozen=True):
    """Everything that decides what a control line means, besides its bytes.

    `kind` is None while it is not known; only INFO, CONNECT, PING, PONG, +OK and -ERR can be read then.
    `dedicated` routes (INFO `route_account`, server 2.10) leave the account out of every line.
    `lnocu` (announced by both INFOs, server 2.10.23) puts the origin cluster into a route's LS-.
    """

    sender: Role
    kind: Kind | None = Kind.CLIENT
    dedicated: bool = False
    lnocu: bool = False


class Frame(Struct):
    """The base of all frames: the operation, and its place in the stream, which equality ignores."""

    op: ClassVar[str] = ""
    offset: int = field(default=0, init=False)
    total_bytes: int = field(default=0, init=False)

    def placed(self: _F, offset: int, total_bytes: int, body: bytes = b"") -> _F:
        """A copy of this frame at this place in the stream, with `body`: headers, then payload."""
        cls = type(self)
        if not cls.op:
            raise NotImplementedError
        _write_placed(cls)
        return self.placed(offset, total_bytes, body)


class Message(Frame):
    """A frame with a body: `header_bytes` of headers, then `payload_bytes` of payload.

    The sizes are always those in the control line. If the decoder does not keep payloads, `payload` is
    empty. If bytes of the payload never arrived, `missing_bytes` counts them, and `payload` holds the
    others. A header block with a gap is not kept: `headers` is empty, but `header_bytes` is not 0.
    """

    payload_bytes: int = field(default=0, init=False)
    missing_bytes: int = field(default=0, init=False)

    @property
    def header_bytes(self) -> int:
        """The size of the header block: 0 for a message that cannot have one."""
        return 0

    def __post_init__(self) -> None:
        self.payload_bytes = len(self.payload)  # type: ignore[attr-defined]  # each subclass has it


class HeaderMessage(Message):
    """A message that may have a header block: `headers`, from NATS/1.0 to the blank line."""

    header_bytes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.payload_bytes = len(self.payload)  # type: ignore[attr-defined]  # each subclass has it
        self.header_bytes = len(self.headers)  # type: ignore[attr-defined]  # each subclass has it


def _write_placed(cls: type[Frame]) -> None:
    """Writes the method `placed` of `cls`, the decoder's hottest call, with one assignment per field.

    It is generated like the `__init__` of a `Struct`, but at its first call: at import, it would be most of
    what the codec costs. Calling the class takes 1.7 times as long, `copy.copy` 8 times (CPython 3.11).
    """
    names = cls._fields
    values = {name: f"self.{name}" for name in names}
    values.update(offset="offset", total_bytes="total_bytes", payload="body")
    if "headers" in names:
        values.update(headers="body[:self.header_bytes]", payload="body[self.header_bytes:]")
    body = "".join(f"\n new.{name} = {values[name]}" for name in names)
    head = "def placed(self, offset, total_bytes, body=b'', cls=cls, make=object.__new__):"
    scope: dict[str, Any] = {"cls": cls}
    # Compiled first: if Ctrl-C interrupts an `exec` of a string, CPython later exits by SIGINT, even if
    # the KeyboardInterrupt was handled.
    exec(compile(f"{head}\n new = make(cls){body}\n return new", "<placed>", "exec"), scope)
    cls.placed = scope["placed"]  # type: ignore[method-assign]  # written out, not declared


class Info(Frame):
    """INFO: a server describes itself. `json` is one JSON object; `ServerInfo` reads it."""

    op: ClassVar[str] = "INFO"
    json: bytes


class Connect(Frame):
    """CONNECT: the opener describes itself and proves its identity. `repr` hides it: it may hold secrets."""

    op: ClassVar[str] = "CONNECT"
    json: bytes

    def __repr__(self) -> str:
        return "Connect()"


class Ping(Frame):
    """PING: asks the peer for a PONG."""

    op: ClassVar[str] = "PING"


class Pong(Frame):
    """PONG: answers the oldest unanswered PING."""

    op: ClassVar[str] = "PONG"


class Ok(Frame):
    """+OK: a server in verbose mode accepted an operation."""

    op: ClassVar[str] = "+OK"


class Err(Frame):
    """-ERR: `text` without the quotes around it, which may contain others."""

    op: ClassVar[str] = "-ERR"
    text: bytes


class Sub(Frame):
    """SUB: a subscription of a client; on a 1.x route, the sid is `RSID:cid:sid` or `QRSID:cid:sid`."""

    op: ClassVar[str] = "SUB"
    subject: bytes
    sid: bytes
    queue: bytes = b""


class Unsub(Frame):
    """UNSUB: ends `sid` now, or after `max_msgs` messages since it began (None: now).

    A server also ends it now for 0 and for text that is not a number (server/client.go: processUnsub); such
    text is read as 0.
    """

    op: ClassVar[str] = "UNSUB"
    sid: bytes
    max_msgs: int | None = None


class Pub(Message):
    """PUB: a client's message without headers."""

    op: ClassVar[str] = "PUB"
    subject: bytes
    reply: bytes = b""
    payload: bytes = b""


class HPub(HeaderMessage):
    """HPUB: a client's message with a header block."""

    op: ClassVar[str] = "HPUB"
    subject: bytes
    reply: bytes = b""
    headers: bytes = b""
    payload: bytes = b""


class Msg(Message):
    """MSG: a message for the subscription `sid`."""

    op: ClassVar[str] = "MSG"
    subject: bytes
    sid: bytes
    reply: bytes = b""
    payload: bytes = b""


class HMsg(HeaderMessage):
    """HMSG to a client: a message with a header block for the subscription `sid`."""

    op: ClassVar[str] = "HMSG"
    subject: bytes
    sid: bytes
    reply: bytes = b""
    headers: bytes = b""
    payload: bytes = b""


class RSub(Frame):
    """RS+: interest of a server. `weight` is the number of queue members there, 0 without a queue."""

    op: ClassVar[str] = "RS+"
    subject: bytes
    account: bytes = b""
    queue: bytes = b""
    weight: int = 0


class RUnsub(Frame):
    """RS-: interest of a server ends; on an optimistic gateway, also that there is none in this subject."""

    op: ClassVar[str] = "RS-"
    subject: bytes
    account: bytes = b""
    queue: bytes = b""


class LSub(Frame):
    """LS+: interest of a leafnode; on a route, `origin` is the leafnode's cluster."""

    op: ClassVar[str] = "LS+"
    subject: bytes
    account: bytes = b""
    origin: bytes = b""
    queue: bytes = b""
    weight: int = 0


class LUnsub(Frame):
    """LS-: interest of a leafnode ends; `origin` only on routes where both servers announced `lnocu`."""

    op: ClassVar[str] = "LS-"
    subject: bytes
    account: bytes = b""
    origin: bytes = b""
    queue: bytes = b""


class RMsg(Message):
    """RMSG: a message between servers, for plain subscribers and one member of each of `queues`."""

    op: ClassVar[str] = "RMSG"
    subject: bytes
    account: bytes = b""
    reply: bytes = b""
    queues: tuple[bytes, ...] = ()
    payload: bytes = b""


class RHMsg(HeaderMessage):
    """HMSG between servers (route, gateway, leafnode): like RMSG, with a header block."""

    op: ClassVar[str] = "HMSG"
    subject: bytes
    account: bytes = b""
    reply: bytes = b""
    queues: tuple[bytes, ...] = ()
    headers: bytes = b""
    payload: bytes = b""


class LMsg(HeaderMessage):
    """LMSG: a message of a leafnode; only on a route does it have an origin, an account and headers."""

    op: ClassVar[str] = "LMSG"
    subject: bytes
    account: bytes = b""
    origin: bytes = b""
    reply: bytes = b""
    queues: tuple[bytes, ...] = ()
    headers: bytes = b""
    payload: bytes = b""


class ASub(Frame):
    """A+: the far gateway has interest in `account` again."""

    op: ClassVar[str] = "A+"
    account: bytes


class AUnsub(Frame):
    """A-: the far gateway has no interest in `account` at all."""

    op: ClassVar[str] = "A-"
    account: bytes
