"""A client of JetStream on a plain socket that writes down what it asks for and what it hears.

The log is in the words of the tables that the dissector makes, but made with a parser of its own
(`wire.Wire`): it is the witness against which the tables are checked, row for row. It goes to truth.json,
under `did`.
"""

from __future__ import annotations

import json
from typing import Any

from tests.support.wire import Headers, Received, Wire

SERVER = """
jetstream { store_dir: $FOLDER, max_memory_store: 64MB, max_file_store: 64MB, domain: hub }
feature_flags { js_ack_fc_v2: %s }
"""
Log = dict[str, list[dict[str, object]]]


def called(
    api: str, stream: str | None, consumer: str | None = None, error: int | None = None
) -> dict[str, object]:
    """The log's line of an API call."""
    return {
        "api": api,
        "domain": None,
        "stream": stream,
        "consumer": consumer,
        "err_code": error,
    }


class Desk:
    """A client of JetStream that logs. Its inboxes are `_INBOX.NAME.N`, all under one subscription."""

    def __init__(self, client: Wire, log: Log) -> None:
        self.wire = client
        self.log = log
        self._inbox = f"_INBOX.{client.name}"
        self._inboxes = 0
        client.sub(f"{self._inbox}.*")
        client.flush()

    def inbox(self) -> str:
        """A new one."""
        self._inboxes += 1
        return f"{self._inbox}.{self._inboxes}"

    def api(self, call: str, names: str = "", body: object = None, prefix: str = "$JS.API") -> Any:
        """Calls the API and returns the answer."""
        subject = f"{prefix}.{call}.{names}".rstrip(".")
        content = b"" if body is None else json.dumps(body).encode()
        inbox = self.inbox()
        self.wire.pub(subject, content, reply=inbox)
        answer = json.loads(self.wire.expect("MSG", inbox).body)
        named = names.split(".")
        error = answer.get("error", {}).get("err_code")
        row = called(call, named[0] or None, named[1] if len(named) > 1 else None, error)
        row["domain"] = prefix.split(".")[1] if prefix.count(".") == 2 else None
        self.log["api"].append(row)
        return answer

    def publish(self, subject: str, payload: bytes, headers: Headers | None = None) -> None:
        """Publishes and waits for the ack."""
        inbox = self.inbox()
        self.wire.pub(subject, payload, reply=inbox, headers=headers)
        self.published(subject, self.answer(inbox), headers)

    def published(self, subject: str, answer: Received | None, headers: Headers | None) -> None:
        """Logs a publication with its ack."""
        ack = json.loads(answer.body) if answer and answer.body[:1] == b"{" else {}
        refused = "error" in ack
        self.log["publishes"].append(
            {
                "subject": subject,
                "msg_id": dict(headers or ()).get("Nats-Msg-Id"),
                "stream": ack.get("stream"),
                "seq": None if refused else ack.get("seq"),
                "duplicate": ack.get("duplicate"),
                "err_code": ack["error"]["err_code"] if refused else None,
            }
        )

    def answer(self, inbox: str) -> Received:
        """The next message on an inbox, with headers or without."""
        while True:
            received = self.wire.expect_any("MSG", "HMSG")
            if received.subject == inbox:
                return received

    def pull(self, names: str, count: int, **body: object) -> list[Received]:
        """Pulls; returns the messages, until there are so many or a status comes."""
        inbox = self.inbox()
        self.wire.pub(f"$JS.API.CONSUMER.MSG.NEXT.{names}", json.dumps(body).encode(), reply=inbox)
        return self.pulled(names, inbox, count, int(str(body.get("batch", 1))))

    def pulled(self, names: str, inbox: str, count: int, batch: int) -> list[Received]:
        """The messages of a pull, which is logged."""
        stream, consumer = names.split(".")
        row: dict[str, object] = {
            "stream": stream,
            "consumer": consumer,
            "batch": batch,
        }
        self.log["pulls"].append(row)
        got: list[Received] = []
        row |= {"delivered": 0, "end": "open"}
        while len(got) < count or count < batch:
            received = self.wire.expect_any("MSG", "HMSG")
            if received.subject == inbox:
                status = received.body.split(b"\r\n", 1)[0].split(b" ")[1].decode()
                if status == "100":
                    continue
                row["end"] = status
                break
            got.append(received)
            self.delivered(received)
        row["delivered"] = len(got)
        if len(got) == batch and row["end"] == "open":
            row["end"] = "filled"
        return got

    def delivered(self, message: Received) -> None:
        """Logs a delivery."""
        tokens = message.reply.split(".")
        tokens = tokens[:2] + tokens[4:] if len(tokens) > 9 else tokens
        self.log["deliveries"].append(
            {
                "stream": tokens[2],
                "consumer": tokens[3],
                "delivered_count": int(tokens[4]),
                "stream_seq": int(tokens[5]),
                "subject": message.subject,
                "ack": None,
            }
        )

    def ack(self, message: Received, payload: bytes, ack: str, reply: str = "") -> None:
        """Acknowledges a delivery."""
        self.wire.pub(message.reply, payload, reply=reply)
        tokens = message.reply.split(".")
        tokens = tokens[:2] + tokens[4:] if len(tokens) > 9 else tokens
        place = {"delivered_count": int(tokens[4]), "stream_seq": int(tokens[5])}
        place |= {"stream": tokens[2], "consumer": tokens[3]}  # type: ignore[dict-item]  # texts, too
        for row in self.log["deliveries"]:
            if place.items() <= row.items():
                row["ack"] = ack
