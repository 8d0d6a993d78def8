"""Messages of a stream: metadata out of reply subjects, and acknowledgements, once."""

from __future__ import annotations

import threading
from datetime import datetime, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from natsync.errors import OptionError, RequestTimeoutError
from natsync.jetstream.message import (
    AckNoneMsg,
    JetStreamMsg,
    MsgMetadata,
    parse_metadata,
    parse_sequences,
)
from natsync.jetstream.reader_errors import (
    CantAckIfConsumerAckNoneError,
    MsgAlreadyAckdError,
    NotJSMessageError,
)

from tests.jetstream.made import ACK, Sent, delivered

PLAIN = MsgMetadata("S", "c", 1, 7, 3, 1700000000123456789, 5)
IN_HUB = MsgMetadata("S", "c", 1, 7, 3, 1700000000123456789, 5, "hub")
ACKS = ("ack", "ack_sync", "nak", "term")


@pytest.mark.parametrize(
    ("reply", "metadata"),
    [
        (ACK, PLAIN),
        ("$JS.ACK.hub.szMpdrwD.S.c.1.7.3.1700000000123456789.5", IN_HUB),
        ("$JS.ACK._.szMpdrwD.S.c.1.7.3.1700000000123456789.5", PLAIN),
        ("$JS.ACK.hub.szMpdrwD.S.c.1.7.3.1700000000123456789.5.token.more", IN_HUB),
        ("imported." + ACK, PLAIN),
    ],
)
def test_metadata_of_both_forms(reply: str, metadata: MsgMetadata) -> None:
    assert parse_metadata(reply) == metadata
    assert parse_sequences(reply) == (7, 3)
    assert delivered(Sent(), reply).metadata == metadata


def test_the_time_of_a_message() -> None:
    stored = datetime(2023, 11, 14, 22, 13, 20, 123456, timezone.utc)
    assert parse_metadata(ACK).timestamp == stored


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "_INBOX.abc",
        "$JS.ACK",
        "$JS.ACK.",
        "$JS.ACK.S.c.1.7.3.1700000000123456789",
        "$JS.ACK.hub.S.c.1.7.3.1700000000123456789.5",
        "$JS.ACK.S.c.one.7.3.1700000000123456789.5",
        "$JS.ACK.S.c.1.7.3.-1.5",
        "$JS.ACK.S.c.1.7_0.3.1.5",
        "$JS.ACK.S.c.1.²." + "3.1.5",
        "$JS.ACK.S.c.1.7.3." + "9" * 20 + ".5",
        "$JS.ACK.S.c.1.7.3.1." + "9" * 5000,
        "$JS.ACK.S..1.7.3.1.5",
        "x$JS.ACK.S.c.1.7.3.1.5",
    ],
)
def test_what_is_no_acknowledgement_subject(reply: str) -> None:
    with pytest.raises(NotJSMessageError):
        parse_metadata(reply)


_TOKEN = st.sampled_from(["$JS", "ACK", "S", "", "1", "٣", "²", "9" * 30, "-1", "_"]) | st.text()


@given(st.lists(_TOKEN, max_size=14).map(".".join) | st.text().map("$JS.ACK.".__add__))
@example("$JS.ACK.S.c.1.٣.٣.1.5")
def test_any_text_is_metadata_or_a_named_error(reply: str) -> None:
    for parse in (parse_metadata, parse_sequences):
        try:
            parse(reply)
        except NotJSMessageError as error:
            assert error.reply == reply
    try:
        assert parse_metadata(reply).timestamp.tzinfo is timezone.utc
    except NotJSMessageError:
        pass


@pytest.mark.parametrize(
    ("call", "arguments", "payload"),
    [
        ("ack", {}, b"+ACK"),
        ("ack_sync", {"timeout": 1.0}, b"+ACK"),
        ("nak", {}, b"-NAK"),
        ("nak", {"delay": 1.5}, b'-NAK {"delay": 1500000000}'),
        ("term", {}, b"+TERM"),
        ("term", {"reason": "no such order"}, b"+TERM no such order"),
        ("in_progress", {}, b"+WPI"),
    ],
)
def test_what_is_sent(call: str, arguments: dict[str, object], payload: bytes) -> None:
    core = Sent()
    getattr(delivered(core), call)(**arguments)
    assert core.sent == [(ACK, payload)]


@pytest.mark.parametrize("second", [*ACKS, "in_progress"])
@pytest.mark.parametrize("first", ACKS)
def test_a_message_is_settled_once(first: str, second: str) -> None:
    core = Sent()
    msg = delivered(core)
    msg.in_progress()
    msg.in_progress()
    assert not msg.settled
    getattr(msg, first)()
    assert msg.settled
    with pytest.raises(MsgAlreadyAckdError, match="already acknowledged"):
        getattr(msg, second)()
    assert len(core.sent) == 3


def test_one_of_many_threads_settles_it() -> None:
    core = Sent()
    msg = delivered(core)
    refused = []
    together = threading.Barrier(8)

    def settle() -> None:
        together.wait(10)
        try:
            msg.ack()
        except MsgAlreadyAckdError as error:
            refused.append(error)

    threads = [threading.Thread(target=settle) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(core.sent) == 1
    assert len(refused) == 7


@pytest.mark.parametrize("call", ACKS)
def test_an_acknowledgement_that_failed_may_be_repeated(call: str) -> None:
    core = Sent()
    core.error = RequestTimeoutError(ACK, 1.0)
    msg = delivered(core)
    with pytest.raises(RequestTimeoutError):
        getattr(msg, call)()
    core.error = None
    getattr(msg, call)()
    assert len(core.sent) == 1


@pytest.mark.parametrize("call", [*ACKS, "in_progress"])
def test_acknowledgements_that_cannot_be(call: str) -> None:
    core = Sent()
    with pytest.raises(NotJSMessageError):
        getattr(delivered(core, "_INBOX.abc"), call)()
    with pytest.raises(CantAckIfConsumerAckNoneError, match="s.a"):
        getattr(delivered(core, kind=AckNoneMsg), call)()
    assert core.sent == []


def test_arguments_that_make_no_sense() -> None:
    msg = delivered(Sent())
    with pytest.raises(OptionError, match="NaN"):
        msg.nak(float("nan"))
    for delay in (1e10, float("inf")):
        with pytest.raises(OptionError, match="less than 272 years"):
            msg.nak(delay)
    with pytest.raises(TypeError, match="delay"):
        msg.nak("5s")  # type: ignore[arg-type]  # what is refused
    with pytest.raises(TypeError, match="reason"):
        msg.term(b"no")  # type: ignore[arg-type]  # what is refused
    assert not msg.settled


def test_the_size_that_the_server_counts() -> None:
    assert delivered(Sent()).wire_size == len("s.a") + len(ACK) + len("x")


def test_its_text() -> None:
    assert repr(delivered(Sent())) == f"JetStreamMsg(subject='s.a', reply={ACK!r}, 1 bytes)"
    assert isinstance(delivered(Sent()), JetStreamMsg)
