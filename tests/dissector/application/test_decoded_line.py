"""Frames of layers above NATS in a few words."""

from __future__ import annotations

import pytest

from dissect.nats.application.decoded_line import decoded
from dissect.nats.schema.records import FrameRecord

from tests.dissector.application.scripted_session import Nothing, ScriptedSession

ACK = "$JS.ACK.ORDERS.worker.1.42.17.1795226503305173000.3"


def line_of(op: str, subject: str, reply: str | None = None, payload: str | None = None) -> str:
    frame: FrameRecord = ScriptedSession(Nothing()).pub(subject, b"", reply)
    frame.op, frame.payload = op, payload
    return decoded(frame)


@pytest.mark.parametrize(
    "payload, kind",
    [(None, "ACK"), ("", "ACK"), ("-NAK", "NAK"), ("+TERM no", "TERM"), ("+WPI", "PROGRESS")],
)
def test_the_line_of_an_ack_names_its_kind_and_message(payload: str | None, kind: str) -> None:
    assert line_of("PUB", ACK, payload=payload) == f"{kind} ORDERS/worker 42"


def test_deliveries_calls_and_pulls() -> None:
    assert line_of("MSG", "orders", ACK) == "delivery ORDERS/worker 42, 3 pending"
    again = ACK.replace(".1.42", ".2.42")
    assert line_of("MSG", "orders", again) == "delivery ORDERS/worker 42, attempt 2, 3 pending"
    assert line_of("PUB", "$JS.API.CONSUMER.MSG.NEXT.S.C", "_INBOX.1") == "PULL S/C"
    assert line_of("PUB", "$JS.hub.API.STREAM.INFO.S", "_INBOX.1") == "STREAM.INFO S in domain hub"
    assert line_of("PUB", "$JS.API.INFO", "_INBOX.1") == "INFO"


def test_reserved_subjects_by_their_purpose_and_others_not_at_all() -> None:
    assert line_of("RMSG", "$NRG.AE.x") == "Raft"
    assert line_of("PUB", "$KV.b.k") == "key-value"
    assert line_of("MSG", "_INBOX.1") == line_of("PUB", "orders") == line_of("SUB", "$KV.b.>") == ""
