"""Encoder: canonical bytes for every frame, and a refusal of whatever no decoder would read back.

That all that is written reads back equal is a law of test_properties.py.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    ProtocolError,
    Pub,
    RMsg,
    Role,
    RSub,
    RUnsub,
    Sub,
    Unsub,
    encode,
)

from tests.protocol.feeding import read
from tests.protocol.table import (
    CLIENT,
    GATEWAY_IN,
    H12,
    LEAF,
    PINNED,
    ROUTE,
    ROUTE_LNOCU,
    SERVER,
    Row,
    each_context,
)

IGNORED = b"SUB foo whatever\r\n"
"""Read on a route, where 2.x servers ignore it; never written."""

BAD_TOKENS = [b"", b" ", b"a b", b"a\tb", b"a\r", b"\na"]


@each_context
def test_a_row_is_written_as_it_is_read(some: list[Row]) -> None:
    for row in some:
        if row.wire != IGNORED:
            written = encode(row.frame, row.context)
            assert (written == row.wire) is row.canonical, row.name
            assert read([written], row.context).frames == [row.frame], row.name


def refusals() -> Iterator[tuple[Frame, Context]]:
    """Frames that their context cannot carry."""
    for bad in BAD_TOKENS:
        yield Pub(bad), CLIENT
        yield HPub(bad, headers=H12), CLIENT
        yield Sub(bad, b"1"), CLIENT
        yield Sub(b"a", bad), CLIENT
        yield Unsub(bad), CLIENT
        yield Msg(bad, b"1"), SERVER
        yield Msg(b"a", bad), SERVER
        yield HMsg(b"a", bad), SERVER
        yield RSub(bad, b"A"), ROUTE[0]
        yield RSub(b"a", bad), ROUTE[0]
        yield RSub(bad), PINNED[0]
        yield RUnsub(b"a", bad), GATEWAY_IN
        yield RMsg(b"a", bad), ROUTE[0]
        yield RMsg(b"a", b"A", b"", (bad,)), ROUTE[0]
        yield LSub(b"a", b"A", bad), ROUTE[0]
        yield LUnsub(b"a", b"A", bad), ROUTE_LNOCU[0]
        yield LMsg(b"a", b"A", bad), ROUTE[0]
        yield LMsg(bad), LEAF[0]
    for bad in BAD_TOKENS[1:]:
        yield Pub(b"a", bad), CLIENT
        yield Msg(b"a", b"1", bad), SERVER
        yield Sub(b"a", b"1", bad), CLIENT
        yield RMsg(b"a", b"A", bad), ROUTE[0]
        yield RMsg(b"a", b"A", bad, (b"g",)), ROUTE[0]
        yield RSub(b"a", b"A", bad, 1), ROUTE[0]
    for text in (b"a\rb", b"a\nb"):
        yield Err(text), SERVER
        yield Info(b"{" + text + b"}"), SERVER
        yield Connect(b"{" + text + b"}"), CLIENT
        yield ASub(text), GATEWAY_IN
    for text in (b"", b"{", b"}", b"[]", b" {}", b"{} "):
        yield Info(text), SERVER
        yield Connect(text), CLIENT
    for name in (b"", b" A", b"A\t"):
        yield ASub(name), GATEWAY_IN
        yield AUnsub(name), LEAF[0]


@pytest.mark.parametrize("frame, context", list(refusals()), ids=repr)
def test_what_the_grammar_cannot_carry_is_refused(frame: Frame, context: Context) -> None:
    with pytest.raises(ProtocolError) as caught:
        encode(frame, context)
    assert caught.value.offset is None


@pytest.mark.parametrize(
    "frame, context, reason",
    [
        (Unsub(b"1", -1), CLIENT, "max_msgs of -1 is not within 0 and 999999999"),
        (Unsub(b"1", 10**9), CLIENT, "max_msgs of 1000000000 is not within 0 and 999999999"),
        (RSub(b"a", b"A", b"q", -1), ROUTE[0], "weight of -1 is not within 0 and 999999999"),
        (LSub(b"a", queue=b"q", weight=10**9), LEAF[0], "weight of 1000000000 is not within"),
        (RSub(b"a", b"A", b"", 1), ROUTE[0], "weight without a queue"),
        (RSub(b"a", b"A"), PINNED[0], "account on a connection that is bound to one"),
        (RMsg(b"a", b"A"), PINNED[1], "account on a connection that is bound to one"),
        (LSub(b"a", b"A"), LEAF[0], "account on a connection that is bound to one"),
        (LSub(b"a", b"", b"LC"), LEAF[0], "origin where the grammar has none"),
        (LUnsub(b"a", b"A", b"LC"), ROUTE[0], "origin where the grammar has none"),
        (LMsg(b"a", b"", b"LC"), LEAF[0], "origin where the grammar has none"),
        (LMsg(b"a", headers=H12), LEAF[0], "LMSG with headers on a leafnode"),
        (Sub(b"a", b"1"), ROUTE[0], "sid on a route that is not an RSID:"),
        (Unsub(b"1"), ROUTE[0], "sid on a route that is not an RSID:"),
        (Msg(b"a", b"1"), ROUTE[0], "sid on a route that is not an RSID:"),
        (Msg(b"a", b"1"), CLIENT, "Msg is not sent by the client of a client connection"),
        (Err(b"a"), CLIENT, "Err is not sent by the client of a client connection"),
        (HMsg(b"a", b"1"), ROUTE[0], "HMsg is not sent by the client of a route connection"),
        (Pub(b"a"), Context(Role.CLIENT, None), "Pub is not sent by the client of a unknown"),
        (Frame(), CLIENT, "Frame is not sent by the client of a client connection"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_refusal_says_why(frame: Frame, context: Context, reason: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        encode(frame, context)
    assert caught.value.reason.startswith(reason)


def test_a_gateway_names_its_accounts_even_if_called_dedicated() -> None:
    context = Context(Role.SERVER, Kind.GATEWAY, dedicated=True, lnocu=True)
    wire = encode(RSub(b"a", b"A"), context)
    assert wire == b"RS+ A a\r\n"
    assert read([wire], context).frames == [RSub(b"a", b"A")]


class Vast(bytes):
    """Bytes that say they are a billion."""

    def __len__(self) -> int:
        return 10**9


def test_a_body_of_ten_digits_is_refused() -> None:
    with pytest.raises(ProtocolError, match="body of more than 999999999 bytes"):
        encode(Pub(b"a", payload=Vast()), CLIENT)
    with pytest.raises(ProtocolError, match="body of more than 999999999 bytes"):
        encode(HPub(b"a", headers=H12, payload=Vast()), CLIENT)
