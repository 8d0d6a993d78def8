"""The table of refused bytes: what a decoder says to each, and at which byte.

A control line that is wrong is reported where it begins, a wrong byte after a body where it stands.
"""

from __future__ import annotations

from typing import NamedTuple

from natsync.protocol import Context, Kind, Limits, Role

from tests.protocol.feeding import label, shown
from tests.protocol.table import (
    CLIENT,
    GATEWAY_IN,
    GATEWAY_OUT,
    LEAF,
    PINNED,
    ROUTE,
    ROUTE_LNOCU,
    SERVER,
    UNKNOWN,
)


class Refused(NamedTuple):
    context: Context
    wire: bytes
    reason: str
    at: int = 0
    limits: Limits = Limits()

    @property
    def name(self) -> str:
        return f"{label(self.context)}: {shown(self.wire)}"


ANYWHERE = [CLIENT, SERVER, ROUTE[0], GATEWAY_IN, LEAF[1], UNKNOWN[0]]
NUMBER = "with a number that is not 1 to 9 digits"
TAIL = "no CR LF after a body"
TOTAL = "with a header size above the total size"
CR = "carriage return inside a control line"
MARKER = "with a marker that is neither + nor |"
OVER = "control line over the limit of 4096 bytes"
SERVER_LIMITS = Limits(control_line=4096, payload=1 << 20)

GARBAGE = [
    *(b"\r\n", b"\n", b"\r", b" PING\r\n", b"\tPING\r\n", b"GET / HTTP/1.1\r\n", b"{}\r\n"),
    *(b"\x16\x03\x01\x02\x00", b"\x00", b"\xff\xfe", b"\xf0\x9f\x98\x80\r\n"),
    *(b"PIN\r\n", b"PI NG\r\n", b"pinx", b"+K\r\n", b"-OK\r\n", b"-ERX 'x'\r\n", b"C\r\n"),
    *(
        b"CONECT {}\r\n",
        b"RS 1\r\n",
        b"A A\r\n",
        b"Aux\r\n",
        b"AU A\r\n",
        b"Au\r\n",
        b"PUSH a 1\r\n",
    ),
]
"""Refused in every context, by their first bytes."""


def lines(context: Context, reason: str, *wires: bytes) -> list[Refused]:
    return [Refused(context, wire, reason) for wire in wires]


def counts(context: Context, op: str, **by_arguments: str) -> list[Refused]:
    """Lines of `op` with as many arguments as the keyword says: `none`, `one`, `two` and so on."""
    numbers = {"none": "0 arguments", "one": "1 argument"}
    words = ["none", "one", "two", "three", "four", "five", "six"]
    return [
        Refused(
            context,
            f"{op} {arguments}\r\n".encode(),
            f"{op} with {numbers.get(word, f'{words.index(word)} arguments')}",
        )
        for word, arguments in by_arguments.items()
    ]


WRONG_COUNTS = [
    *counts(CLIENT, "PUB", none="", one="foo", four="foo re x 5"),
    *counts(CLIENT, "HPUB", none="", two="foo 5", five="foo re x 0 5"),
    *counts(CLIENT, "SUB", none="", one="foo", four="foo q 1 2"),
    *counts(CLIENT, "UNSUB", none="", three="1 2 3"),
    *counts(SERVER, "MSG", none="", two="foo 5", five="foo 1 re x 5"),
    *counts(SERVER, "HMSG", three="foo 1 5", six="foo 1 re x 0 5"),
    *counts(ROUTE[0], "RS+", none="", one="A", three="A foo q", five="A foo q 1 2"),
    *counts(ROUTE[0], "RS-", one="A", four="A foo q 1"),
    *counts(ROUTE[0], "LS+", two="A foo", four="LC A foo q", six="LC A foo q 1 2"),
    *counts(ROUTE[0], "LS-", one="A", four="LC A foo q"),
    *counts(ROUTE_LNOCU[0], "LS-", two="A foo", five="LC A foo q 1"),
    *counts(ROUTE[0], "RMSG", two="A foo", none=""),
    *counts(ROUTE[0], "HMSG", three="A foo 5"),
    *counts(ROUTE[0], "LMSG", four="LC A foo 5"),
    *counts(PINNED[0], "RS+", none="", two="foo q", four="foo q 1 2"),
    *counts(PINNED[0], "RS-", three="foo q 1"),
    *counts(PINNED[0], "LS+", one="LC", three="LC foo q"),
    *counts(PINNED[0], "LS-", none="", three="LC foo q"),
    *counts(PINNED[0], "RMSG", one="foo"),
    *counts(PINNED[0], "HMSG", two="foo 5"),
    *counts(PINNED[0], "LMSG", three="LC foo 5"),
    *counts(GATEWAY_IN, "RS+", one="foo"),
    *counts(GATEWAY_OUT, "RMSG", two="foo 5"),
    *counts(LEAF[0], "LS+", none="", two="foo q", four="LC foo q 1"),
    *counts(LEAF[0], "LS-", none="", three="foo q 1"),
    *counts(LEAF[0], "LMSG", one="foo"),
    *counts(LEAF[0], "HMSG", two="foo 5"),
]
WRONG_NUMBERS = [
    Refused(CLIENT, b"PUB foo %b\r\n" % number, f"PUB {NUMBER}")
    for number in (b"1234567890", b"0000000001", b"-1", b"+1", b"5x", b"0x5", b"1.0", b"\xb2", b"'")
] + [
    Refused(CLIENT, b"HPUB foo 1234567890 5\r\n", f"HPUB {NUMBER}"),
    Refused(CLIENT, b"HPUB foo -1 5\r\n", f"HPUB {NUMBER}"),
    Refused(SERVER, b"MSG foo 1 1234567890\r\n", f"MSG {NUMBER}"),
    Refused(SERVER, b"HMSG foo 1 12 many\r\n", f"HMSG {NUMBER}"),
    Refused(ROUTE[0], b"RS+ A foo q -1\r\n", f"RS+ {NUMBER}"),
    Refused(ROUTE[0], b"RS+ A foo q 1234567890\r\n", f"RS+ {NUMBER}"),
    Refused(ROUTE[0], b"LS+ LC A foo q w\r\n", f"LS+ {NUMBER}"),
    Refused(ROUTE[0], b"RMSG A foo 9999999999\r\n", f"RMSG {NUMBER}"),
    Refused(LEAF[0], b"LMSG foo five\r\n", f"LMSG {NUMBER}"),
    Refused(CLIENT, b"HPUB foo 6 5\r\n", f"HPUB {TOTAL}"),
    Refused(SERVER, b"HMSG foo 1 13 12\r\n", f"HMSG {TOTAL}"),
    Refused(ROUTE[1], b"HMSG A foo 13 12\r\n", f"HMSG {TOTAL}"),
    Refused(ROUTE[1], b"LMSG LC A foo 13 12\r\n", f"LMSG {TOTAL}"),
    Refused(ROUTE[0], b"RMSG A foo ++ re g 5\r\n", f"RMSG {MARKER}"),
    Refused(ROUTE[0], b"RMSG A foo re g 5\r\n", f"RMSG {MARKER}"),
    Refused(ROUTE[0], b"HMSG A foo - g 0 5\r\n", f"HMSG {MARKER}"),
    Refused(ROUTE[0], b"LMSG LC A foo || g 0 5\r\n", f"LMSG {MARKER}"),
    Refused(PINNED[0], b"RMSG A foo | g 5\r\n", f"RMSG {MARKER}"),
    Refused(LEAF[0], b"LMSG A foo | g 5\r\n", f"LMSG {MARKER}"),
]
BODIES = [
    Refused(CLIENT, b"PUB foo 5\r\nhello\n\r\n", TAIL, 16),
    Refused(CLIENT, b"PUB foo 5\r\nhello\rX", TAIL, 17),
    Refused(CLIENT, b"PUB foo 5\r\nhello!\r\n", TAIL, 16),
    Refused(CLIENT, b"PUB foo 5\r\nhelloPING\r\n", TAIL, 16),
    Refused(CLIENT, b"PUB foo 0\r\n\n", TAIL, 11),
    Refused(CLIENT, b"PUB foo 5\nhello\r\r\n", TAIL, 16),
    Refused(SERVER, b"HMSG foo 1 12 12\r\nNATS/1.0\r\n\r\nx", TAIL, 30),
    Refused(ROUTE[1], b"RMSG A foo 1\r\nab\r\n", TAIL, 15),
    Refused(LEAF[1], b"LMSG foo 2\r\na\r\n\r\n", TAIL, 14),
]
SHAPES = [
    *lines(CLIENT, "no blank after PUB", b"PUBfoo 5\r\n", b"pub:\r\n", b"PUBLISH x\r\n"),
    *lines(CLIENT, "no blank after UNSUB", b"UNSUB\x0b1\r\n", b"UNSUB:1\r\n"),
    *lines(SERVER, "no blank after -ERR", b"-ERR'x'\r\n", b"-err\r\n", b"-ERR\n"),
    *lines(ROUTE[0], "no blank after RS+", b"RS+A foo\r\n", b"rs++\r\n"),
    *lines(GATEWAY_IN, "A+ without an account", b"A+\r\n", b"A+ \t \r\n", b"A+x\r\n"),
    *lines(GATEWAY_IN, "A- without an account", b"A-\n", b"Au \r\n"),
    *lines(CLIENT, "CONNECT without a JSON object", b"CONNECT\r\n", b"CONNECT []\r\n"),
    *lines(CLIENT, "CONNECT without a JSON object", b"CONNECT {\r\n", b"CONNECTED {}x\r\n"),
    *lines(SERVER, "INFO without a JSON object", b"INFO\r\n", b"INFO 1\r\n", b"INFO {} x\r\n"),
    *lines(CLIENT, CR, b"PUB fo\ro 5\r\n", b"PUB foo 5\r\r\n", b"SUB foo 1\r \r\n", b"SUB\r a b\n"),
    *lines(CLIENT, CR, b'CONNECT {"a":\r1}\r\n', b"INFO {}\r\r\n"),
    *lines(SERVER, CR, b"-ERR 'a\rb'\r\n", b"MSG foo 1\r5\r\n"),
]
LONG = [
    Refused(CLIENT, b"SUB %b 1\r\n" % (b"s" * 4095), OVER, 0, SERVER_LIMITS),
    Refused(CLIENT, b"sub %b 1\r\n" % (b"s" * 4095), OVER, 0, SERVER_LIMITS),
    Refused(CLIENT, b"UNSUB %b\n" % (b"s" * 4097), OVER, 0, SERVER_LIMITS),
    Refused(CLIENT, b"PUB %b 1\r\n" % (b"s" * 4095), OVER, 0, SERVER_LIMITS),
    Refused(CLIENT, b'CONNECT {"a":"%b"}\r\n' % (b"s" * 4089), OVER, 0, SERVER_LIMITS),
    Refused(CLIENT, b'CONNECT{"a":"%b"}\r\n' % (b"s" * 4089), OVER, 0, SERVER_LIMITS),
    Refused(CLIENT, b"PING%b\r\n" % (b"s" * 4097), OVER, 0, SERVER_LIMITS),
    Refused(CLIENT, b"pub %b" % (b"s" * 9000), OVER, 0, SERVER_LIMITS),
    Refused(CLIENT, b"PUB %b\r\n" % (b"s" * 9000), OVER, 0, SERVER_LIMITS),
    Refused(CLIENT, b"PUB foo 6\r\n", "body of 6 bytes is over the limit of 5", 0, Limits(4096, 5)),
    Refused(
        CLIENT, b"HPUB a 2 6\r\n", "body of 6 bytes is over the limit of 5", 0, Limits(4096, 5)
    ),
    Refused(
        SERVER, b"MSG a 1 67108865\r\n", "body of 67108865 bytes is over the limit of 67108864"
    ),
]


def not_sent(context: Context, *wires: bytes) -> list[Refused]:
    kind = f"a {context.kind.value} connection" if context.kind else "a connection of unknown kind"
    ending = f"is not sent by the {context.sender.value} of {kind}"
    return [Refused(context, w, f"{w.split()[0].decode().upper()} {ending}") for w in wires]


MISPLACED = [
    *not_sent(
        CLIENT, b"MSG foo 1 5\r\n", b"hmsg foo 1 12 12\r\n", b"-ERR 'x'\r\n", b"RS+ A foo\r\n"
    ),
    *not_sent(CLIENT, b"RMSG A foo 5\r\n", b"LS+ foo\r\n", b"LMSG foo 5\r\n", b"A+ A\r\n"),
    *not_sent(SERVER, b"CONNECT {}\r\n", b"PUB foo 5\r\n", b"HPUB foo 0 5\r\n", b"SUB foo 1\r\n"),
    *not_sent(SERVER, b"UNSUB 1\r\n", b"RS- A foo\r\n", b"LS- foo\r\n", b"A- A\r\n"),
    *not_sent(ROUTE[1], b"CONNECT {}\r\n"),
    *not_sent(
        GATEWAY_OUT, b"RS+ A foo\r\n", b"RS- A foo\r\n", b"LS+ A foo\r\n", b"LMSG A f 0 5\r\n"
    ),
    *not_sent(GATEWAY_OUT, b"PUB foo 5\r\n", b"SUB foo 1\r\n", b"MSG foo 1 5\r\n", b"A+ A\r\n"),
    *not_sent(
        GATEWAY_IN, b"RMSG A foo 5\r\n", b"HMSG A f 12 12\r\n", b"LS- A f\r\n", b"CONNECT {}\r\n"
    ),
    *not_sent(LEAF[0], b"MSG foo 1 5\r\n"),
    *not_sent(LEAF[1], b"MSG foo 1 5\r\n", b"CONNECT {}\r\n"),
    *not_sent(UNKNOWN[0], b"PUB foo 5\r\n", b"RMSG A foo 5\r\n", b"A+ A\r\n", b"LS+ a\r\n"),
    *not_sent(UNKNOWN[1], b"MSG foo 1 5\r\n", b"CONNECT {}\r\n"),
    Refused(ROUTE[0], b"MSG foo 1 5\r\n", "MSG with a sid that is not an RSID: on a route"),
    Refused(ROUTE[0], b"MSG foo\r\n", "MSG with a sid that is not an RSID: on a route"),
    Refused(
        Context(Role.SERVER, Kind.CLIENT),
        b"PUB\r\n",
        "PUB is not sent by the server of a client connection",
    ),
]

REFUSED = [
    *(Refused(context, wire, "unknown operation") for context in ANYWHERE for wire in GARBAGE),
    *WRONG_COUNTS,
    *WRONG_NUMBERS,
    *BODIES,
    *SHAPES,
    *LONG,
    *MISPLACED,
]
