"""Messages as text, JSON and the payload alone."""

from __future__ import annotations

import json

import pytest

from natsync.commands.output import show
from natsync.headers import HeadersLike
from natsync.message import Data, Msg, ReceivedMsg
from natsync.protocol import HMsg
from natsync.protocol import Msg as MsgFrame

Output = pytest.CaptureFixture[bytes]


def nowhere(msg: Msg, data: Data, *, headers: HeadersLike | None) -> None:
    raise AssertionError("nothing is sent here")


PLAIN = ReceivedMsg(MsgFrame(b"a\xff", b"1", b"re", b"\xff\r\n"), nowhere)
STATUS = ReceivedMsg(HMsg(b"a", b"1", b"", b"NATS/1.0 404 Not Here\r\nk: v\r\n\r\n", b""), nowhere)


def test_text(capsysbinary: Output) -> None:
    show(PLAIN, "text")
    assert capsysbinary.readouterr().out == b"[a\\xff] \\xff\r\n\n"


def test_the_payload_alone_keeps_its_place(capsysbinary: Output) -> None:
    show(STATUS, "text", flush=False)
    show(PLAIN, "raw")
    assert capsysbinary.readouterr().out == b"[a] \n\xff\r\n\n"


def test_json(capsysbinary: Output) -> None:
    show(PLAIN, "json")
    show(STATUS, "json")
    plain, status = map(json.loads, capsysbinary.readouterr().out.splitlines())
    assert plain == {"subject": "a\\xff", "reply": "re", "data_base64": "/w0K"}
    assert status == {
        "subject": "a",
        "headers": {"k": ["v"]},
        "status": 404,
        "description": "Not Here",
        "data": "",
    }
