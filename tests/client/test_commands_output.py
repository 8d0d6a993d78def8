"""Messages as text, JSON and the payload alone."""

from __future__ import annotations

import ast
import json

import pytest

from natsync.commands.output import print_json, print_line, print_table, printable, show
from natsync.headers import HeadersLike
from natsync.message import Data, Msg, ReceivedMsg
from natsync.protocol import HMsg
from natsync.protocol import Msg as MsgFrame

from tests.support.paths import ROOT

Output = pytest.CaptureFixture[bytes]
Text = pytest.CaptureFixture[str]


def nowhere(msg: Msg, data: Data, *, headers: HeadersLike | None) -> None:
    raise AssertionError("nothing is sent here")


PLAIN = ReceivedMsg(MsgFrame(b"a\xff", b"1", b"re", b"\xff\r\n"), nowhere)
STATUS = ReceivedMsg(HMsg(b"a", b"1", b"", b"NATS/1.0 404 Not Here\r\nk: v\r\n\r\n", b""), nowhere)


def test_text(capsysbinary: Output) -> None:
    show(PLAIN, "text")
    assert capsysbinary.readouterr().out == b"[a\\xff] \\xff\r\n\n"


def test_the_payload_alone_keeps_its_place(capsysbinary: Output) -> None:
    show(STATUS, "text", flushes=False)
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


def test_a_table_aligns_numbers(capsys: Text) -> None:
    print_table(("NAME", "N"), [("a", 7), ("long", 123)])
    assert capsys.readouterr().out.splitlines() == ["NAME    N", "a       7", "long  123"]
    print_table(("NAME", "N"), [])
    assert capsys.readouterr().out == "NAME  N\n"
    print_table(("NAME", "N"), [("\x1b\n", 7), ("long", "\x9b")])
    assert capsys.readouterr().out.splitlines() == [
        "NAME         N",
        "\\x1b\\x0a     7",
        "long      \\x9b",
    ]


def test_control_characters_are_shown(capsys: Text) -> None:
    assert printable("a ä \\ 你好") == "a ä \\ 你好"
    for code in range(0x110000):
        shown = printable(chr(code))
        assert shown == chr(code) or shown[:2] in ("\\x", "\\u") and shown.isprintable()
    for hostile in "\0\a\b\t\n\r\x1b\x7f\x85\x9b\u061c\u200e\u2028\u202e\u2066\udcff":
        assert printable(hostile)[0] == "\\"
    print_line("one\ntwo")
    print_json({"k": "\x7f\x9b\u202e"})
    assert capsys.readouterr().out == 'one\\x0atwo\n{"k": "\\u007f\\u009b\\u202e"}\n'


def test_commands_print_with_these_functions_alone() -> None:
    for path in (ROOT / "natsync/commands").glob("*.py"):
        calls = [
            node.func
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        ]
        names = {call.id for call in calls if isinstance(call, ast.Name)}
        assert "print" not in names or path.name in ("output.py", "reporting.py"), path.name
