"""Frames: values that know their sizes, compare by what they say, not where they stood, and keep secrets."""

from __future__ import annotations

import copy
import pickle

import pytest

from natsync.protocol import (
    Connect,
    Context,
    Frame,
    HMsg,
    HPub,
    Info,
    Kind,
    LMsg,
    Message,
    Msg,
    Ping,
    Pong,
    Pub,
    RHMsg,
    RMsg,
    Role,
)

from tests.protocol.table import ROWS, Row

BY_CLASS = {type(row.frame): row for row in ROWS}
one_of_each = pytest.mark.parametrize("row", BY_CLASS.values(), ids=lambda row: row.name)


def test_the_table_has_every_class_and_operation() -> None:
    ops = {cls.op for cls in BY_CLASS}
    assert len(BY_CLASS) == 21
    assert ops == {
        *("INFO", "CONNECT", "PING", "PONG", "+OK", "-ERR", "PUB", "HPUB", "SUB", "UNSUB", "MSG"),
        *("HMSG", "RS+", "RS-", "LS+", "LS-", "RMSG", "LMSG", "A+", "A-"),
    }


@one_of_each
def test_a_placed_copy_says_the_same_elsewhere(row: Row) -> None:
    frame = row.frame
    body = getattr(frame, "headers", b"") + getattr(frame, "payload", b"")
    placed = frame.placed(7, 99, body)
    assert placed == frame and type(placed) is type(frame) and placed is not frame
    assert (placed.offset, placed.total_bytes) == (7, 99)
    assert (frame.offset, frame.total_bytes) == (0, 0)
    for name in frame._fields:
        if name not in ("offset", "total_bytes"):
            assert getattr(placed, name) == getattr(frame, name)


@one_of_each
def test_frames_can_be_copied_and_pickled(row: Row) -> None:
    frame = row.frame.placed(3, 4)
    for again in (copy.copy(frame), pickle.loads(pickle.dumps(frame))):
        assert again == frame
        assert (again.offset, again.total_bytes) == (3, 4)


@one_of_each
def test_frames_have_no_room_for_typing_errors(row: Row) -> None:
    with pytest.raises(AttributeError):
        setattr(row.frame, "subjcet", b"")


def test_a_frame_of_no_operation_has_no_place() -> None:
    with pytest.raises(NotImplementedError):
        Frame().placed(0, 1)


def test_equal_fields_in_another_operation_are_another_frame() -> None:
    pairs: list[tuple[Frame, Frame]] = [
        (Ping(), Pong()),
        (Pub(b"a", payload=b"x"), RMsg(b"a", payload=b"x")),
    ]
    assert not any(one == other for one, other in pairs)


@pytest.mark.parametrize(
    "message, sizes",
    [
        (Pub(b"a", b"r", b"12345"), (0, 5)),
        (Msg(b"a", b"1", payload=b"12"), (0, 2)),
        (RMsg(b"a", payload=b""), (0, 0)),
        (HPub(b"a", headers=b"123", payload=b"45"), (3, 2)),
        (HMsg(b"a", b"1", headers=b"123"), (3, 0)),
        (RHMsg(b"a", headers=b"1", payload=b"2"), (1, 1)),
        (LMsg(b"a", payload=b"2"), (0, 1)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_message_knows_its_sizes(message: Message, sizes: tuple[int, int]) -> None:
    assert (message.header_bytes, message.payload_bytes) == sizes
    assert message.missing_bytes == 0


def test_connect_hides_what_may_be_secret() -> None:
    assert repr(Connect(b'{"pass":"s3cret"}')) == "Connect()"
    assert "s3cret" not in repr([Connect(b"s3cret")])
    assert repr(Info(b"{}")) == "Info(json=b'{}')"


def test_contexts_are_values() -> None:
    assert Context(Role.CLIENT) == Context(Role.CLIENT, Kind.CLIENT, False, False)
    assert len({Context(Role.CLIENT), Context(Role.CLIENT), Context(Role.SERVER)}) == 2
