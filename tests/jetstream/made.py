"""Messages and statuses as a server sends them, made without one."""

from __future__ import annotations

from collections.abc import Mapping

from natsync.jetstream.message import JetStreamMsg
from natsync.message import Data, HeadersLike, Msg, ReceivedMsg
from natsync.protocol import HMsg
from natsync.protocol import Msg as MsgFrame

ACK = "$JS.ACK.S.c.1.7.3.1700000000123456789.5"


class Sent:
    """A connection that keeps what is published, or raises `error`."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.error: Exception | None = None

    def publish(self, subject: str, data: Data, *, headers: HeadersLike | None = None) -> None:
        if self.error:
            raise self.error
        self.sent.append((subject, bytes(data)))

    def respond(self, msg: Msg, data: Data, *, headers: HeadersLike | None = None) -> None:
        self.publish(msg.reply, data)

    def request(self, subject: str, data: bytes, *, timeout: float | None = 1.0) -> None:
        self.publish(subject, data)


def message(data: bytes = b"x", reply: str = ACK, subject: str = "s.a") -> Msg:
    """A message of a stream."""
    return ReceivedMsg(MsgFrame(subject.encode(), b"1", reply.encode(), data), Sent().respond)


def status(line: str, headers: Mapping[str, str] | None = None) -> Msg:
    """A status, such as `408 Request Timeout`."""
    fields = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    block = f"NATS/1.0 {line}\r\n{fields}\r\n".encode()
    return ReceivedMsg(HMsg(b"_INBOX.x", b"1", b"", block, b""), Sent().respond)


def delivered(
    core: Sent, reply: str = ACK, kind: type[JetStreamMsg] = JetStreamMsg
) -> JetStreamMsg:
    """A message as a reader returns it."""
    frame = MsgFrame(b"s.a", b"1", reply.encode(), b"x")
    return kind(frame, core.respond, core)  # type: ignore[arg-type]  # as much of a Core as it needs
