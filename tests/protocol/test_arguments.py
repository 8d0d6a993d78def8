"""Arguments: which operation each side of each kind of connection sends, and with how many arguments.

Two tables of the servers' rules: the matrix of operations, and the argument counts of the links between
servers, whose number alone decides what a token means.
"""

from __future__ import annotations

import pytest

from natsync.protocol import Context, Limits, ProtocolError
from natsync.protocol.arguments import OPS, interest, may_send, messages
from natsync.protocol.grammar import grammar

from tests.protocol.feeding import label, read
from tests.protocol.table import (
    CLIENT,
    CONTEXTS,
    GATEWAY_IN,
    GATEWAY_OUT,
    LEAF,
    PINNED,
    PINNED_LNOCU,
    ROUTE,
    ROUTE_LNOCU,
    ROWS,
    SERVER,
    UNKNOWN,
)

_HANDSHAKE = "INFO PING PONG +OK"
_ROUTE = "-ERR PUB HPUB SUB UNSUB MSG HMSG RS+ RS- RMSG LS+ LS- LMSG A+ A-"
_LEAF = "-ERR PUB HPUB SUB UNSUB HMSG RS+ RS- RMSG LS+ LS- LMSG A+ A-"

MATRIX = {
    CLIENT: f"{_HANDSHAKE} CONNECT PUB HPUB SUB UNSUB",
    SERVER: f"{_HANDSHAKE} -ERR MSG HMSG",
    ROUTE[0]: f"{_HANDSHAKE} CONNECT {_ROUTE}",
    ROUTE[1]: f"{_HANDSHAKE} {_ROUTE}",
    PINNED_LNOCU[0]: f"{_HANDSHAKE} CONNECT {_ROUTE}",
    GATEWAY_OUT: f"{_HANDSHAKE} CONNECT -ERR RMSG HMSG",
    GATEWAY_IN: f"{_HANDSHAKE} -ERR RS+ RS- A+ A-",
    LEAF[0]: f"{_HANDSHAKE} CONNECT {_LEAF}",
    LEAF[1]: f"{_HANDSHAKE} {_LEAF}",
    UNKNOWN[0]: f"{_HANDSHAKE} CONNECT -ERR",
    UNKNOWN[1]: f"{_HANDSHAKE} -ERR",
}
"""Every operation that is read; INFO and +OK of a client are, and have no effect, as on servers."""

COUNTS = [
    (ROUTE, "RS+", {2, 4}),
    (PINNED, "RS+", {1, 3}),
    (ROUTE, "RS-", {2, 3}),
    (PINNED, "RS-", {1, 2}),
    (ROUTE, "LS+", {3, 5}),
    (PINNED, "LS+", {2, 4}),
    (ROUTE_LNOCU, "LS-", {3, 4}),
    (PINNED_LNOCU, "LS-", {2, 3}),
    (ROUTE, "LS-", {2, 3}),
    (PINNED, "LS-", {1, 2}),
    (ROUTE, "RMSG", {3, 4, 5, 6, 7, 8}),
    (PINNED, "RMSG", {2, 3, 4, 5, 6, 7, 8}),
    (ROUTE, "HMSG", {4, 5, 6, 7, 8}),
    (PINNED, "HMSG", {3, 4, 5, 6, 7, 8}),
    (ROUTE, "LMSG", {5, 6, 7, 8}),
    (PINNED, "LMSG", {4, 5, 6, 7, 8}),
    ([GATEWAY_IN], "RS+", {2, 4}),
    ([GATEWAY_IN], "RS-", {2, 3}),
    ([GATEWAY_OUT], "RMSG", {3, 4, 5, 6, 7, 8}),
    ([GATEWAY_OUT], "HMSG", {4, 5, 6, 7, 8}),
    (LEAF, "LS+", {1, 3}),
    (LEAF, "LS-", {1, 2}),
    (LEAF, "LMSG", {2, 3, 4, 5, 6, 7, 8}),
    (LEAF, "HMSG", {3, 4, 5, 6, 7, 8}),
    ([CLIENT], "PUB", {2, 3}),
    ([CLIENT], "HPUB", {3, 4}),
    ([CLIENT], "SUB", {2, 3}),
    ([CLIENT], "UNSUB", {1, 2}),
    ([SERVER], "MSG", {3, 4}),
    ([SERVER], "HMSG", {4, 5}),
]
BEFORE_MARKER = {"RMSG": (2, 1), "HMSG": (2, 1), "LMSG": (3, 2)}
"""Index of the marker on pooled and dedicated routes; on leafnodes it is always 1."""


@pytest.mark.parametrize("context", MATRIX, ids=label)
@pytest.mark.parametrize("op", sorted(OPS))
def test_only_what_a_side_sends_is_read(context: Context, op: bytes) -> None:
    wires = [row.wire for row in ROWS if row.wire.split()[0] == op]
    readings = [read([wire], context) for wire in wires]
    if op.decode() in MATRIX[context].split():
        assert any(reading.frames for reading in readings)
    else:
        assert all("is not sent by" in str(reading.refusal) for reading in readings)


@pytest.mark.parametrize(
    "contexts, op, good",
    COUNTS,
    ids=lambda value: label(value[0]) if isinstance(value, list) else None,
)
def test_each_operation_takes_so_many_arguments(
    contexts: list[Context], op: str, good: set[int]
) -> None:
    for context in contexts:
        assert {count for count in range(9) if accepted(context, op, count)} == good


def accepted(context: Context, op: str, count: int) -> bool:
    """Whether `op` is read with `count` arguments, of which the last two are numbers and one is a `|`."""
    args = [b"a"] * max(0, count - 2) + [b"0"] * min(2, count)
    if op in BEFORE_MARKER and context not in (CLIENT, SERVER):
        at = 1 if context in LEAF else BEFORE_MARKER[op][context.dedicated]
        if at < count - 2 or (at < count - 1 and op == "RMSG"):
            args[at] = b"|"
    try:
        grammar(context, Limits()).read(b" ".join([op.encode(), *args]) + b"\r\n")
    except ProtocolError:
        return False
    return True


def test_every_operation_is_known() -> None:
    for context in CONTEXTS:
        assert messages(context).keys() | interest(context).keys() <= OPS


@pytest.mark.parametrize("context", CONTEXTS, ids=label)
def test_only_openers_connect(context: Context) -> None:
    assert may_send(b"CONNECT", context) == (context.sender is CLIENT.sender)
