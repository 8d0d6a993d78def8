"""Frames of layers above NATS in a few words."""

from __future__ import annotations

import pytest

from dissect.nats.application.decoded_line import decoded
from dissect.nats.schema.records import FrameRecord

from tests.dissector.application.layer_talk import Nothing, Talk

ACK = "$JS.ACK.ORDERS.worker.1.42.17.1795226503305173000.3"


def said(op: str, subject: str, reply: str | None = None, payload: str | None = None) -> str:
    frame: FrameRecord = Talk(Nothing()).pub(subject, b"", reply)
    frame.op, frame.payload = op, payload
    return decoded(frame)


@pytest.mark.parametrize(
    "payload, kind",
    [(None, "ACK"), ("", "ACK"), ("-NAK", "NAK"), ("+TERM no", "TERM"), ("+WPI", "PROGRESS")],
)
def test_acks(payload: str | None, kind: str) -> None:
    assert said("PUB", ACK, payload=payload) == f"{kind} ORDERS/worker 42"


def test_deliveries_calls_and_pulls() -> None:
    assert said("MSG", "orders", ACK) == "delivery ORDERS/worker 42, 3 pending"
    again = ACK.replace(".1.42", ".2.42")
    assert said("MSG", "orders", again) == "delivery ORDERS/worker 42, attempt 2, 3 pending"
    assert said("PUB", "$JS.API.CONSUMER.MSG.NEXT.S.C", "_INBOX.1") == "PULL S/C"
    assert said("PUB", "$JS.hub.API.STREAM.INFO.S", "_INBOX.1") == "STREAM.INFO S in domain hub"
    assert said("PUB", "$JS.API.INFO", "_INBOX.1") == "INFO"


def test_reserved_subjects_by_their_purpose_and_others_not_at_all() -> None:
    assert said("RMSG", "$NRG.AE.x") == "Raft"
    assert said("PUB", "$KV.b.k") == "key-value"
    assert said("MSG", "_INBOX.1") == said("PUB", "orders") == said("SUB", "$KV.b.>") == ""
