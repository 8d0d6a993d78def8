"""A made-up session for application layers: its frames, numbered and timed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping

from dissect.nats.options import Payload
from dissect.nats.schema.declaration import ApplicationState, LayerFrame
from dissect.nats.schema.records import Record

MS = 1_000_000


class ScriptedSession:
    """Feeds frames to a layer; each is a millisecond after the one before. `rows` has what they completed."""

    def __init__(
        self, state: ApplicationState, kind: str = "client", shown: Payload = Payload.NONE
    ) -> None:
        self.state = state
        self.kind = kind
        self.shown = shown
        self.rows: list[Record] = []
        self.number = 0
        self._sent: Counter[str] = Counter()

    def pub(
        self,
        subject: str,
        content: bytes | Mapping[str, object] = b"",
        reply: str | None = None,
        **headers: str,
    ) -> LayerFrame:
        """The client publishes; `Nats_Msg_Id="x"` is a header."""
        return self._say("originator", "PUB", subject, content, reply, headers)

    def msg(
        self,
        subject: str,
        content: bytes | Mapping[str, object] = b"",
        reply: str | None = None,
        sid: str | None = "1",
        status: int | None = None,
        text: str | None = None,
        **headers: str,
    ) -> LayerFrame:
        """The server sends a message to the client."""
        frame = self.frame("responder", "MSG", subject, content, reply, headers)
        frame.sid, frame.status, frame.status_text = sid, status, text
        return self.say(frame)

    def stored(self, subject: str, facts: Mapping[str, str]) -> LayerFrame:
        """The server sends a stored message, as the answer of a direct get."""
        frame = self.frame("responder", "MSG", subject, b"a secret", None, facts)
        return self.say(frame)

    def link(
        self,
        sender: str,
        subject: str,
        content: bytes | Mapping[str, object] = b"",
        reply: str | None = None,
        status: int | None = None,
        account: str = "A",
        **headers: str,
    ) -> LayerFrame:
        """A server sends a message to another one."""
        frame = self.frame(sender, "RMSG", subject, content, reply, headers)
        frame.account, frame.status = account, status
        return self.say(frame)

    def sub(self, subject: str, sid: str = "1", queue: str | None = None) -> LayerFrame:
        """The client subscribes."""
        frame = self.frame("originator", "SUB", subject, b"", None, {})
        frame.sid, frame.queue = sid, queue
        return self.say(frame)

    def unsub(self, sid: str = "1", max_msgs: int | None = None) -> LayerFrame:
        """The client ends a subscription."""
        frame = self.frame("originator", "UNSUB", "", b"", None, {})
        frame.sid, frame.max_msgs = sid, max_msgs
        return self.say(frame)

    def say(self, frame: LayerFrame) -> LayerFrame:
        """Any frame."""
        self.rows += self.state.add(frame)
        return frame

    def close(self) -> list[Record]:
        """The session is over; all rows."""
        self.rows += self.state.finish()
        return self.rows

    def of(self, table: type[Record]) -> list[Record]:
        """The rows of one table so far."""
        return [row for row in self.rows if isinstance(row, table)]

    def _say(
        self,
        sender: str,
        op: str,
        subject: str,
        content: bytes | Mapping[str, object],
        reply: str | None,
        headers: Mapping[str, str],
    ) -> LayerFrame:
        return self.say(self.frame(sender, op, subject, content, reply, headers))

    def frame(
        self,
        sender: str,
        op: str,
        subject: str,
        content: bytes | Mapping[str, object],
        reply: str | None,
        headers: Mapping[str, str],
    ) -> LayerFrame:
        """The next frame, which the layer does not get yet."""
        self.number += 1
        self._sent[sender] += 1
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        named = {name.replace("_", "-"): [value] for name, value in headers.items()}
        return LayerFrame(
            session="s",
            number=self.number,
            ts_ns=self.number * MS,
            packet=1,
            capture="c",
            sender=sender,
            kind=self.kind,
            op=f"H{op}" if named and op in ("PUB", "MSG") else op,
            subject=subject or None,
            reply=reply,
            headers=named or None,
            payload_bytes=len(body),
            total_bytes=1,
            offset=self._sent[sender] - 1,
            content=body,
            shown=self.shown,
        )


def values(rows: Iterable[Record], *names: str) -> list[tuple[object, ...]]:
    """Some columns of rows."""
    return [tuple(getattr(row, name) for name in names) for row in rows]


class Nothing:
    """A layer that makes no rows: the session only builds frames."""

    def add(self, frame: object) -> tuple[()]:
        return ()

    def finish(self) -> tuple[()]:
        return ()
