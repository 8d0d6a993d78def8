"""The table: what every operation looks like on the wire, in every context that has it, and what it means.

Each row is (context, frame, wire). `canonical` rows are what our encoder writes; the others are what real
servers and clients also write, or what servers take for good (framing rules of server/parser.go).
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import NamedTuple

import pytest

from natsync.protocol import (
    ASub,
    AUnsub,
    Connect,
    Context,
    Err,
    Frame,
    HMsg,
    HPub,
    Info,
    Kind,
    LMsg,
    LSub,
    LUnsub,
    Msg,
    Ok,
    Ping,
    Pong,
    Pub,
    RHMsg,
    RMsg,
    Role,
    RSub,
    RUnsub,
    Sub,
    Unsub,
)

from tests.protocol.feeding import label, shown

Pairs = dict[bytes, Frame]


class Row(NamedTuple):
    context: Context
    frame: Frame
    wire: bytes
    canonical: bool

    @property
    def name(self) -> str:
        return f"{label(self.context)}: {shown(self.wire)}"


def both(kind: Kind, *, dedicated: bool = False, lnocu: bool = False) -> list[Context]:
    return [Context(sender, kind, dedicated, lnocu) for sender in (Role.CLIENT, Role.SERVER)]


CLIENT = Context(Role.CLIENT, Kind.CLIENT)
SERVER = Context(Role.SERVER, Kind.CLIENT)
ROUTE = both(Kind.ROUTE)
ROUTE_LNOCU = both(Kind.ROUTE, lnocu=True)
PINNED = both(Kind.ROUTE, dedicated=True)
PINNED_LNOCU = both(Kind.ROUTE, dedicated=True, lnocu=True)
ROUTES = [*ROUTE, *ROUTE_LNOCU, *PINNED, *PINNED_LNOCU]
POOLED = [*ROUTE, *ROUTE_LNOCU]
DEDICATED = [*PINNED, *PINNED_LNOCU]
GATEWAY_OUT = Context(Role.CLIENT, Kind.GATEWAY)
GATEWAY_IN = Context(Role.SERVER, Kind.GATEWAY)
LEAF = both(Kind.LEAFNODE)
UNKNOWN = [Context(Role.CLIENT, None), Context(Role.SERVER, None)]
CONTEXTS = [CLIENT, SERVER, *ROUTES, GATEWAY_OUT, GATEWAY_IN, *LEAF, *UNKNOWN]

H12 = b"NATS/1.0\r\n\r\n"
H22 = b"NATS/1.0\r\nKey: val\r\n\r\n"

EVERYWHERE: Pairs = {
    b'INFO {"server_id":"N","port":4222}\r\n': Info(b'{"server_id":"N","port":4222}'),
    b"INFO {}\r\n": Info(b"{}"),
    b"PING\r\n": Ping(),
    b"PONG\r\n": Pong(),
    b"+OK\r\n": Ok(),
}
EVERYWHERE_LENIENT: Pairs = {
    b'INFO {"a":"b"} \r\n': Info(b'{"a":"b"}'),
    b"INFO{}\r\n": Info(b"{}"),
    b"info \t {} \t\r\n": Info(b"{}"),
    b"INFO {}\n": Info(b"{}"),
    b"PINGxyz abc\r\n": Ping(),
    b"PING\r\r\n": Ping(),
    b"PING a\rb\r\n": Ping(),
    b"PING  \r\n": Ping(),
    b"piNg\n": Ping(),
    b"PONG\t1\n": Pong(),
    b"+ok\r\n": Ok(),
    b"+OK fine\r\n": Ok(),
}
OPENER: Pairs = {
    b'CONNECT {"verbose":false}\r\n': Connect(b'{"verbose":false}'),
}
OPENER_LENIENT: Pairs = {
    b"CONNECT{}\r\n": Connect(b"{}"),
    b'connect \t{"a b":1}\t \r\n': Connect(b'{"a b":1}'),
    b"CONNECT {}\n": Connect(b"{}"),
}
ERRORS: Pairs = {
    b"-ERR 'Unknown Protocol Operation'\r\n": Err(b"Unknown Protocol Operation"),
    b"-ERR 'Permissions Violation for Publish to \"it's\"'\r\n": Err(
        b'Permissions Violation for Publish to "it\'s"'
    ),
    b"-ERR '' '\r\n": Err(b"' "),
    b"-ERR ''\r\n": Err(b""),
    b"-ERR '''\r\n": Err(b"'"),
}
ERRORS_LENIENT: Pairs = {
    b"-err\t 'Stale Connection' \r\n": Err(b"Stale Connection"),
    b"-ERR no quotes\r\n": Err(b"no quotes"),
    b"-ERR '\r\n": Err(b"'"),
    b"-ERR \r\n": Err(b""),
    b"-ERR 'x'\n": Err(b"x"),
}

FROM_CLIENT: Pairs = {
    b"PUB foo 5\r\nhello\r\n": Pub(b"foo", payload=b"hello"),
    b"PUB foo 0\r\n\r\n": Pub(b"foo"),
    b"PUB foo re.ply 2\r\n\r\n\r\n": Pub(b"foo", b"re.ply", b"\r\n"),
    b"PUB foo 12\r\nPUB x 1\r\na\r\n\r\n": Pub(b"foo", payload=b"PUB x 1\r\na\r\n"),
    b"HPUB foo 22 33\r\n"
    + H22
    + b"hello world\r\n": HPub(b"foo", headers=H22, payload=b"hello world"),
    b"HPUB foo re.ply 12 12\r\n" + H12 + b"\r\n": HPub(b"foo", b"re.ply", H12),
    b"HPUB foo 0 5\r\nhello\r\n": HPub(b"foo", payload=b"hello"),
    b"HPUB foo 3 5\r\nhello\r\n": HPub(b"foo", headers=b"hel", payload=b"lo"),
    b"SUB foo 1\r\n": Sub(b"foo", b"1"),
    b"SUB foo.* workers a:b\r\n": Sub(b"foo.*", b"a:b", b"workers"),
    b"SUB \x00\xff\xc3\xa4\x0b\x0c >\r\n": Sub(b"\x00\xff\xc3\xa4\x0b\x0c", b">"),
    b"UNSUB 1\r\n": Unsub(b"1"),
    b"UNSUB 1 5\r\n": Unsub(b"1", 5),
    b"UNSUB 1 0\r\n": Unsub(b"1", 0),
    b"UNSUB 1 999999999\r\n": Unsub(b"1", 999_999_999),
}
FROM_CLIENT_LENIENT: Pairs = {
    b"pub foo 5\r\nhello\r\n": Pub(b"foo", payload=b"hello"),
    b"PUB\tfoo\t \t5\r\nhello\r\n": Pub(b"foo", payload=b"hello"),
    b"PUB   foo   re   5\r\nhello\r\n": Pub(b"foo", b"re", b"hello"),
    b"PUB foo 5  \r\nhello\r\n": Pub(b"foo", payload=b"hello"),
    b"PUB foo 5\nhello\r\n": Pub(b"foo", payload=b"hello"),
    b"PUB foo 000000005\r\nhello\r\n": Pub(b"foo", payload=b"hello"),
    b"PUB f\x0bo\x0c 000\r\n\r\n": Pub(b"f\x0bo\x0c"),
    b"hPuB foo 12 013\r\n" + H12 + b"x\r\n": HPub(b"foo", headers=H12, payload=b"x"),
    b"sUb foo 1 \t\r\n": Sub(b"foo", b"1"),
    b"SUB foo  1\r\n": Sub(b"foo", b"1"),
    b"SUB foo 1\n": Sub(b"foo", b"1"),
    b"unsub 1\t7\r\n": Unsub(b"1", 7),
    b"UNSUB 1 -1\r\n": Unsub(b"1", 0),
    b"UNSUB 1 many\r\n": Unsub(b"1", 0),
    b"UNSUB 1 9999999999\r\n": Unsub(b"1", 0),
}
FROM_SERVER: Pairs = {
    b"MSG foo 1 5\r\nhello\r\n": Msg(b"foo", b"1", payload=b"hello"),
    b"MSG subject sid 0\r\n\r\n": Msg(b"subject", b"sid"),
    b"MSG foo.bar 1 _INBOX.x 5\r\nhello\r\n": Msg(b"foo.bar", b"1", b"_INBOX.x", b"hello"),
    b"MSG a 1 4096\r\n" + bytes(4096) + b"\r\n": Msg(b"a", b"1", payload=bytes(4096)),
    b"HMSG foo 1 22 33\r\n"
    + H22
    + b"hello world\r\n": HMsg(b"foo", b"1", headers=H22, payload=b"hello world"),
    b"HMSG foo 1 3 5\r\nhello\r\n": HMsg(b"foo", b"1", headers=b"hel", payload=b"lo"),
    b"HMSG r 2 16 16\r\nNATS/1.0 503\r\n\r\n\r\n": HMsg(
        b"r", b"2", headers=b"NATS/1.0 503\r\n\r\n"
    ),
    b"HMSG foo 1 re.ply 12 14\r\n" + H12 + b"ok\r\n": HMsg(b"foo", b"1", b"re.ply", H12, b"ok"),
    b"HMSG a b 12 14\r\n" + H12 + b"ok\r\n": HMsg(b"a", b"b", headers=H12, payload=b"ok"),
}
FROM_SERVER_LENIENT: Pairs = {
    b"msg foo 1 5\nhello\r\n": Msg(b"foo", b"1", payload=b"hello"),
    b"MSG  foo\t1 \t re  05 \r\nhello\r\n": Msg(b"foo", b"1", b"re", b"hello"),
    b"hmsg foo  1 12  12\r\n" + H12 + b"\r\n": HMsg(b"foo", b"1", headers=H12),
}

INTEREST: Pairs = {
    b"RS+ A foo.*\r\n": RSub(b"foo.*", b"A"),
    b"RS+ A q.x g1 2\r\n": RSub(b"q.x", b"A", b"g1", 2),
    b"RS- A foo.*\r\n": RUnsub(b"foo.*", b"A"),
    b"RS- A q.x g1\r\n": RUnsub(b"q.x", b"A", b"g1"),
}
INTEREST_LENIENT: Pairs = {
    b"rs+ A \t foo.* \r\n": RSub(b"foo.*", b"A"),
    b"RS+ A q.x g1 002\n": RSub(b"q.x", b"A", b"g1", 2),
    b"rs-  A  q.x  g1\r\n": RUnsub(b"q.x", b"A", b"g1"),
}
LINK_MESSAGES: Pairs = {
    b"RMSG A foo.bar 5\r\nhello\r\n": RMsg(b"foo.bar", b"A", payload=b"hello"),
    b"RMSG A foo.bar re.ply 5\r\nhello\r\n": RMsg(b"foo.bar", b"A", b"re.ply", payload=b"hello"),
    b"RMSG A foo.empty 0\r\n\r\n": RMsg(b"foo.empty", b"A"),
    b"RMSG A q.x | g2 g1 2\r\nok\r\n": RMsg(b"q.x", b"A", b"", (b"g2", b"g1"), b"ok"),
    b"RMSG A q.x + r.r g2 g1 2\r\nok\r\n": RMsg(b"q.x", b"A", b"r.r", (b"g2", b"g1"), b"ok"),
    b"RMSG A foo + 2\r\nok\r\n": RMsg(b"foo", b"A", b"+", payload=b"ok"),
    b"RMSG A foo | 2\r\nok\r\n": RMsg(b"foo", b"A", b"|", payload=b"ok"),
    b"RMSG A foo + + + 2\r\nok\r\n": RMsg(b"foo", b"A", b"+", (b"+",), b"ok"),
    b"RMSG A foo | | 2\r\nok\r\n": RMsg(b"foo", b"A", b"", (b"|",), b"ok"),
    b"HMSG A foo.bar 12 17\r\n"
    + H12
    + b"hello\r\n": RHMsg(b"foo.bar", b"A", headers=H12, payload=b"hello"),
    b"HMSG A foo.bar re.ply 22 33\r\n"
    + H22
    + b"hello world\r\n": RHMsg(b"foo.bar", b"A", b"re.ply", headers=H22, payload=b"hello world"),
    b"HMSG A q.x | g2 g1 12 14\r\n"
    + H12
    + b"ok\r\n": RHMsg(b"q.x", b"A", b"", (b"g2", b"g1"), H12, b"ok"),
    b"HMSG A q.x + r.r g2 g1 12 14\r\n"
    + H12
    + b"ok\r\n": RHMsg(b"q.x", b"A", b"r.r", (b"g2", b"g1"), H12, b"ok"),
    b"HMSG a b 12 14\r\n" + H12 + b"ok\r\n": RHMsg(b"b", b"a", headers=H12, payload=b"ok"),
}
LINK_MESSAGES_LENIENT: Pairs = {
    b"rmsg A  q.x\t|  g2 g1 2\nok\r\n": RMsg(b"q.x", b"A", b"", (b"g2", b"g1"), b"ok"),
    b"RMSG A q.x + r.r 2\r\nok\r\n": RMsg(b"q.x", b"A", b"r.r", payload=b"ok"),
    b"hmsg A foo 12 12 \r\n" + H12 + b"\r\n": RHMsg(b"foo", b"A", headers=H12),
}
LEAF_ON_ROUTE: Pairs = {
    b"LS+ LC A from.*\r\n": LSub(b"from.*", b"A", b"LC"),
    b"LS+ LC A lq g1 2\r\n": LSub(b"lq", b"A", b"LC", b"g1", 2),
    b"LS+ _ A foo\r\n": LSub(b"foo", b"A", b"_"),
    b"LMSG LC A from.l1 0 5\r\nhello\r\n": LMsg(b"from.l1", b"A", b"LC", payload=b"hello"),
    b"LMSG LC A from.l1 re.p 0 5\r\nhello\r\n": LMsg(
        b"from.l1", b"A", b"LC", b"re.p", payload=b"hello"
    ),
    b"LMSG LC A from.l1 12 17\r\n"
    + H12
    + b"hello\r\n": LMsg(b"from.l1", b"A", b"LC", headers=H12, payload=b"hello"),
    b"LMSG LC A lq | g2 g3 0 2\r\nok\r\n": LMsg(
        b"lq", b"A", b"LC", b"", (b"g2", b"g3"), payload=b"ok"
    ),
    b"LMSG LC A lq + r.r g2 g3 0 2\r\nok\r\n": LMsg(
        b"lq", b"A", b"LC", b"r.r", (b"g2", b"g3"), payload=b"ok"
    ),
}
ON_DEDICATED: Pairs = {
    b"RS+ $SYS.REQ.SERVER.PING\r\n": RSub(b"$SYS.REQ.SERVER.PING"),
    b"RMSG $SYS.SERVER.N.STATSZ 2\r\n{}\r\n": RMsg(b"$SYS.SERVER.N.STATSZ", payload=b"{}"),
}
LEAF_WITHDRAWN: Pairs = {
    b"LS- A from.*\r\n": LUnsub(b"from.*", b"A"),
    b"LS- A lq g1\r\n": LUnsub(b"lq", b"A", queue=b"g1"),
}
LEAF_WITHDRAWN_LENIENT: Pairs = {b"LS-  A from.*\r\n": LUnsub(b"from.*", b"A")}
LEAF_WITHDRAWN_LNOCU: Pairs = {
    b"LS- LC A from.*\r\n": LUnsub(b"from.*", b"A", b"LC"),
    b"LS- LC A lq g1\r\n": LUnsub(b"lq", b"A", b"LC", b"g1"),
}
ON_LEAF: Pairs = {
    b"LS+ from.*\r\n": LSub(b"from.*"),
    b"LS+ $LDS.abc\r\n": LSub(b"$LDS.abc"),
    b"LS+ a b 3\r\n": LSub(b"a", queue=b"b", weight=3),
    b"LS- from.*\r\n": LUnsub(b"from.*"),
    b"LS- a b\r\n": LUnsub(b"a", queue=b"b"),
    b"LMSG foo 5\r\nhello\r\n": LMsg(b"foo", payload=b"hello"),
    b"LMSG foo re 5\r\nhello\r\n": LMsg(b"foo", reply=b"re", payload=b"hello"),
    b"LMSG foo + 5\r\nhello\r\n": LMsg(b"foo", reply=b"+", payload=b"hello"),
    b"LMSG foo | g1 g2 5\r\nhello\r\n": LMsg(b"foo", queues=(b"g1", b"g2"), payload=b"hello"),
    b"LMSG foo + re g1 5\r\nhello\r\n": LMsg(
        b"foo", reply=b"re", queues=(b"g1",), payload=b"hello"
    ),
    b"HMSG foo 12 14\r\n" + H12 + b"ok\r\n": RHMsg(b"foo", headers=H12, payload=b"ok"),
    b"HMSG a b 12 14\r\n" + H12 + b"ok\r\n": RHMsg(b"a", reply=b"b", headers=H12, payload=b"ok"),
    b"HMSG foo | g1 12 12\r\n" + H12 + b"\r\n": RHMsg(b"foo", queues=(b"g1",), headers=H12),
    b"HMSG foo + re g1 12 12\r\n" + H12 + b"\r\n": RHMsg(b"foo", b"", b"re", (b"g1",), H12),
    b"PUB foo re 2\r\nok\r\n": Pub(b"foo", b"re", b"ok"),
    b"HPUB foo 12 12\r\n" + H12 + b"\r\n": HPub(b"foo", headers=H12),
}
ON_LEAF_LENIENT: Pairs = {
    b"ls-  from.*\r\n": LUnsub(b"from.*"),
    b"RS+ foo g 2\r\n": LSub(b"foo", queue=b"g", weight=2),
    b"SUB foo\r\n": LSub(b"foo"),
    b"RS- foo g\r\n": LUnsub(b"foo", queue=b"g"),
    b"UNSUB foo\r\n": LUnsub(b"foo"),
    b"RMSG foo | g 2\r\nok\r\n": LMsg(b"foo", queues=(b"g",), payload=b"ok"),
}
LEGACY_ROUTE: Pairs = {
    b"SUB foo RSID:4:1\r\n": Sub(b"foo", b"RSID:4:1"),
    b"SUB foo workers QRSID:4:a:b\r\n": Sub(b"foo", b"QRSID:4:a:b", b"workers"),
    b"UNSUB RSID:4:1\r\n": Unsub(b"RSID:4:1"),
    b"UNSUB QRSID:4:1 10\r\n": Unsub(b"QRSID:4:1", 10),
    b"MSG foo RSID:4:1 5\r\nhello\r\n": Msg(b"foo", b"RSID:4:1", payload=b"hello"),
    b"MSG foo QRSID:4:1 re 5\r\nhello\r\n": Msg(b"foo", b"QRSID:4:1", b"re", b"hello"),
}
LEGACY_ROUTE_LENIENT: Pairs = {
    b"SUB foo  RSID:4:1\r\n": Sub(b"foo", b"RSID:4:1"),
    b"SUB foo whatever\r\n": Sub(b"foo", b"whatever"),
}
ROUTE_ODD: Pairs = {
    b"PUB foo 2\r\nok\r\n": Pub(b"foo", payload=b"ok"),
    b"HPUB foo re 12 12\r\n" + H12 + b"\r\n": HPub(b"foo", b"re", H12),
}
ACCOUNTS: Pairs = {b"A+ A\r\n": ASub(b"A"), b"A- $G x\r\n": AUnsub(b"$G x")}
ACCOUNTS_LENIENT: Pairs = {
    b"Au A\r\n": AUnsub(b"A"),
    b"au\tA\r\n": AUnsub(b"A"),
    b"a+  A \r\n": ASub(b"A"),
    b"A- A\n": AUnsub(b"A"),
}


def without_account(pairs: Pairs) -> Pairs:
    """The same lines as a route writes them that is dedicated to the account `A`."""
    shorter = {
        wire.replace(b" A ", b" ", 1): copy(frame)
        for wire, frame in pairs.items()
        if b" A " in wire
    }
    for frame in shorter.values():
        setattr(frame, "account", b"")
    return shorter


def rows(contexts: Iterable[Context], pairs: Pairs, lenient: Pairs = {}) -> list[Row]:
    return [
        Row(context, frame, wire, wire in pairs)
        for context in contexts
        for wire, frame in {**pairs, **lenient}.items()
    ]


ROWS = [
    *rows(CONTEXTS, EVERYWHERE, EVERYWHERE_LENIENT),
    *rows([c for c in CONTEXTS if c.sender is Role.CLIENT], OPENER, OPENER_LENIENT),
    *rows([c for c in CONTEXTS if c != CLIENT], ERRORS, ERRORS_LENIENT),
    *rows([CLIENT], FROM_CLIENT, FROM_CLIENT_LENIENT),
    *rows([SERVER], FROM_SERVER, FROM_SERVER_LENIENT),
    *rows([*POOLED, GATEWAY_IN], INTEREST, INTEREST_LENIENT),
    *rows([*POOLED, GATEWAY_OUT], LINK_MESSAGES, LINK_MESSAGES_LENIENT),
    *rows(POOLED, LEAF_ON_ROUTE),
    *rows(ROUTE, LEAF_WITHDRAWN, LEAF_WITHDRAWN_LENIENT),
    *rows(ROUTE_LNOCU, LEAF_WITHDRAWN_LNOCU),
    *rows(DEDICATED, without_account({**INTEREST, **LINK_MESSAGES, **LEAF_ON_ROUTE})),
    *rows(DEDICATED, ON_DEDICATED),
    *rows(PINNED, without_account(LEAF_WITHDRAWN), {b"LS-  foo\r\n": LUnsub(b"foo")}),
    *rows(PINNED_LNOCU, without_account(LEAF_WITHDRAWN_LNOCU)),
    *rows(POOLED, {}, {b"UNSUB A foo\r\n": RUnsub(b"foo", b"A")}),
    *rows(DEDICATED, {}, {b"UNSUB foo g\r\n": RUnsub(b"foo", queue=b"g")}),
    *rows(ROUTES, {**LEGACY_ROUTE, **ROUTE_ODD}, LEGACY_ROUTE_LENIENT),
    *rows(LEAF, ON_LEAF, ON_LEAF_LENIENT),
    *rows([GATEWAY_IN, *ROUTES, *LEAF], ACCOUNTS, ACCOUNTS_LENIENT),
]


def rows_by_context() -> dict[str, list[Row]]:
    """The rows of each kind of connection and each side, by its name."""
    found: dict[str, list[Row]] = {}
    for row in ROWS:
        found.setdefault(label(row.context), []).append(row)
    return found


each_context = pytest.mark.parametrize("some", rows_by_context().values(), ids=rows_by_context())
"""A test of all rows of a context at once: there are a thousand, and each takes a few microseconds."""
