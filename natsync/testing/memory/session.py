"""`Session`: one client of a `MemoryServer`, from its INFO to its end."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Protocol

from ...protocol import (
    Connect,
    ConnectOptions,
    Context,
    Decoder,
    Err,
    Frame,
    HMsg,
    HPub,
    Info,
    Msg,
    Ok,
    Ping,
    Pong,
    ProtocolError,
    Pub,
    Role,
    ServerInfo,
    Sub,
    Unsub,
    build_headers,
    check_queue,
    check_subscribe,
    encode,
)
from .router import Interest, Message, Router

__all__ = ["Login", "Session"]

_SERVER = Context(Role.SERVER)
_NO_RESPONDERS = build_headers((), 503)


class Login(Protocol):
    """Who may connect."""

    def __call__(self, options: ConnectOptions) -> bool:
        """Returns whether the client may."""


def login(token: str | None, users: dict[str, str]) -> Login:
    """Returns a check of a token, or of users and their passwords; of nothing if there are none."""

    def may(options: ConnectOptions) -> bool:
        if token is not None:
            return hmac.compare_digest(options.auth_token.encode(), token.encode())
        password = users.get(options.user)
        return not users or (
            password is not None
            and hmac.compare_digest(options.password.encode(), password.encode())
        )

    return may


class _Receiver:
    """Sends what comes for one subscription of a client."""

    def __init__(self, session: Session, sid: bytes) -> None:
        self.owner = session
        self.sid = sid
        self.left: int | None = None
        self.count = 0

    def __call__(self, message: Message) -> bool:
        self.count += 1
        self.owner.deliver(message, self.sid)
        if self.left is not None and self.count >= self.left:
            self.owner.unsubscribe(self.sid)
        return True


class Session:
    """The server's side of a connection. `send` takes bytes, `end` closes after what was sent."""

    def __init__(
        self,
        router: Router,
        info: ServerInfo,
        may: Login,
        send: Callable[[bytes], None],
        end: Callable[[], None],
    ) -> None:
        self._router = router
        self._info = info
        self._may = may
        self._send = send
        self._end = end
        self._decoder = Decoder(Role.CLIENT)
        self._options: ConnectOptions | None = None
        self._subs: dict[bytes, tuple[Interest, _Receiver]] = {}
        self._over = False
        self._write(Info(info.to_json()))

    def feed(self, data: bytes) -> None:
        """Takes what the client has sent."""
        try:
            self._decoder.feed(data)
            while frames := self._decoder.read():
                for frame in frames:
                    if not self._over:
                        self._take(frame)
        except ProtocolError:
            self._fail(b"Unknown Protocol Operation")

    def close(self) -> None:
        """Forgets the subscriptions of the client, which is gone."""
        self._over = True
        for sid in list(self._subs):
            self.unsubscribe(sid)

    def deliver(self, message: Message, sid: bytes) -> None:
        """Sends a message for one of the client's subscriptions."""
        if message.headers and self._options and self._options.headers:
            self._write(HMsg(message.subject, sid, message.reply, message.headers, message.payload))
        else:
            self._write(Msg(message.subject, sid, message.reply, message.payload))

    def unsubscribe(self, sid: bytes) -> None:
        """Ends a subscription."""
        if found := self._subs.pop(sid, None):
            self._router.remove(found[0])

    def _take(self, frame: Frame) -> None:
        if isinstance(frame, Connect):
            self._connect(frame)
        elif self._options is None:
            self._fail(b"Authorization Violation")
        elif isinstance(frame, (Pub, HPub)):
            self._publish(frame)
        elif isinstance(frame, Sub):
            self._subscribe(frame)
        elif isinstance(frame, Unsub):
            self._unsub(frame)
        elif isinstance(frame, Ping):
            self._write(Pong())
        elif not isinstance(frame, Pong):
            self._fail(b"Unknown Protocol Operation")

    def _connect(self, frame: Connect) -> None:
        options = ConnectOptions.parse(frame.json)
        if not self._may(options):
            return self._fail(b"Authorization Violation")
        self._options = options
        self._ok()

    def _publish(self, frame: Pub | HPub) -> None:
        assert self._options
        headers = frame.headers if isinstance(frame, HPub) else b""
        if len(headers) + len(frame.payload) > self._info.max_payload:
            return self._fail(b"Maximum Payload Violation")
        self._ok()
        message = Message(frame.subject, frame.reply, headers, frame.payload)
        taken = self._router.publish(message, None if self._options.echo else self)
        if not taken and frame.reply and self._options.no_responders and self._options.headers:
            self._router.publish(Message(frame.reply, b"", _NO_RESPONDERS))

    def _subscribe(self, frame: Sub) -> None:
        try:
            check_subscribe(frame.subject)
            if frame.queue:
                check_queue(frame.queue)
        except ProtocolError:
            return self._write(Err(b"Invalid Subject"))
        if frame.sid not in self._subs:
            receiver = _Receiver(self, frame.sid)
            interest = Interest(frame.subject, receiver, frame.queue)
            self._subs[frame.sid] = interest, receiver
            self._router.add(interest)
        self._ok()

    def _unsub(self, frame: Unsub) -> None:
        if found := self._subs.get(frame.sid):
            receiver = found[1]
            receiver.left = frame.max_msgs
            if not frame.max_msgs or receiver.count >= frame.max_msgs:
                self.unsubscribe(frame.sid)
        self._ok()

    def _ok(self) -> None:
        if self._options and self._options.verbose:
            self._write(Ok())

    def _fail(self, text: bytes) -> None:
        self._write(Err(text))
        self.close()
        self._end()

    def _write(self, frame: Frame) -> None:
        self._send(encode(frame, _SERVER))
