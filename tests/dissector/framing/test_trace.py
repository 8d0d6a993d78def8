"""The trace of a connection: lines of a logger, and nothing where the logger is off."""

from __future__ import annotations

import logging
import pickle

import pytest

from dissect.nats.framing.trace import LOG, Trace, TracedDecision, decision_of, is_traced
from dissect.nats.options import Options
from dissect.nats.types import Gap

from tests.support.conversations import CONNECT, INFO, ORIGINATOR
from tests.support.pcapwriter import Conversation
from tests.support.segments import packet_events, segments_of

SECRET = b"s3cr3t-payload"
CONNECTION = (
    Conversation().handshake().from_server(INFO).from_client(CONNECT)
    .from_client(b"PUB a %d\r\n%s\r\n" % (len(SECRET), SECRET))
    .from_client(SECRET + b"\r\n")
    .close()
    .records
)  # fmt: skip


def dissect() -> None:
    for _ in packet_events(segments_of(CONNECTION), Options()):
        pass


def test_decisions_are_lines_of_the_logger_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "dissect.nats"):
        assert is_traced()
        dissect()
    decisions = [decision_of(record) for record in caplog.records]
    texts = [decision.text for decision in decisions]
    assert texts[1:3] == ["NATS: the responder begins with INFO", "kind client: the first INFO"]
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}
    assert len({decision.session for decision in decisions}) == 1
    assert f"{decisions[1].session}: " in caplog.text and "packet 4: responder: offset 0: NATS" in (
        caplog.text
    )


def test_lines_have_no_payloads(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "dissect.nats"):
        dissect()
    assert "rejected" in caplog.text
    assert SECRET.decode() not in caplog.text


def test_nothing_is_noted_while_the_logger_is_off(caplog: pytest.LogCaptureFixture) -> None:
    assert not is_traced()
    with caplog.at_level(logging.DEBUG):  # of other loggers
        LOG.setLevel(logging.INFO)
        try:
            assert not is_traced()
            dissect()
        finally:
            LOG.setLevel(logging.NOTSET)
    assert not caplog.records


def test_the_place_of_a_note_is_the_item_and_the_end_has_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trace: Trace = pickle.loads(pickle.dumps(Trace("5e449662")))
    with caplog.at_level(logging.DEBUG, "dissect.nats"):
        trace.at(ORIGINATOR, Gap(7, 3, "t.pcap", 20, 5))
        trace.note("one")
        trace.swap_roles()
        trace.note("other", 25)
        trace.end("over")
    assert [decision_of(record) for record in caplog.records] == [
        TracedDecision("5e449662", "t.pcap", 3, "originator", 20, "one"),
        TracedDecision("5e449662", "t.pcap", 3, "responder", 25, "other"),
        TracedDecision("5e449662", "t.pcap", 0, "responder", 0, "over"),
    ]
