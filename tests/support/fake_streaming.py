"""A streaming server that answers what a test wants, where the real one never would.

It listens on a real nats-server, with the codec of natsync. What a test does not set is answered as the real
one does; None is not an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

import natsync
from natsync import Msg
from natsync.protocol import streaming as stan

__all__ = ["FakeStreaming"]

Answer = Callable[[bytes], bytes | None]
SUBJECTS = stan.ConnectResponse(
    *("fake.pub", "fake.sub", "fake.unsub", "fake.close"),
    sub_close_requests="fake.subclose",
    protocol=1,
)


class FakeStreaming:
    """The cluster `fake`. `requests` has the payload of every request, with its subject."""

    def __init__(self, url: str) -> None:
        self.requests: SimpleQueue[tuple[str, bytes]] = SimpleQueue()
        self.connect: Answer = lambda request: SUBJECTS.to_bytes()
        self.ping: Answer = lambda request: b""
        self.publish: Answer = lambda request: stan.PubAck(
            stan.PubMsg.parse(request).guid
        ).to_bytes()
        self.subscribe: Answer = lambda request: stan.SubscriptionResponse("fake.acks").to_bytes()
        self.leave: Answer = lambda request: b""
        self.nc = natsync.connect(url)
        self._listen("_STAN.discover.fake", lambda request: self.connect(request))
        self._listen("fake.ping", lambda request: self.ping(request))
        self._listen("fake.pub.>", lambda request: self.publish(request))
        self._listen("fake.sub", lambda request: self.subscribe(request))
        for subject in ("fake.unsub", "fake.subclose", "fake.close"):
            self._listen(subject, lambda request: self.leave(request))
        self._listen("fake.acks", lambda request: None)
        self.nc.flush()

    def _listen(self, subject: str, answer: Answer) -> None:
        def handle(msg: Msg) -> None:
            self.requests.put((msg.subject, msg.data))
            reply = answer(msg.data)
            if reply is not None and msg.reply:
                msg.respond(reply)

        self.nc.subscribe(subject, handler=handle)

    def wait_request(self, subject: str) -> bytes:
        """The payload of the next request on `subject`; others before it are dropped."""
        while True:
            found, data = self.requests.get(timeout=10)
            if found == subject:
                return data

    def __enter__(self) -> FakeStreaming:
        return self

    def __exit__(self, *_: object) -> None:
        """Afterwards the server knows that nobody listens; it learns late of a connection that is closed."""
        with suppress(natsync.Error):
            self.nc.drain(10)
        self.nc.close()
