"""Hypothesis strategies: frames of every class in every context, and bytes that look like NATS."""

from __future__ import annotations

from hypothesis import strategies as st

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

from tests.protocol.table import CONTEXTS, ROWS

Frames = dict[type[Frame], st.SearchStrategy[Frame]]

contexts = st.sampled_from(CONTEXTS)
tokens = st.one_of(
    st.sampled_from(
        [b"foo", b"a.b.c", b"+", b"|", b"0", b"12", b"A", b"_INBOX.x.1", b">", b"PING"]
    ),
    st.binary(min_size=1, max_size=12).map(
        lambda text: text.translate(None, delete=b" \t\r\n") or b"x"
    ),
)
some_tokens = st.one_of(st.just(b""), tokens)
queues = st.lists(tokens, max_size=4).map(tuple)
numbers = st.one_of(st.integers(0, 20), st.integers(0, 999_999_999))
bodies = st.one_of(st.binary(max_size=40), st.sampled_from([b"", b"\r\n", b"PING\r\n", bytes(300)]))
texts = st.binary(max_size=30).map(lambda text: text.translate(None, delete=b"\r\n"))
objects = texts.map(lambda text: b"{" + text + b"}")
accounts = texts.map(lambda text: text.strip(b" \t") or b"A")
rsids = st.builds(lambda kind, rest: kind + rest, st.sampled_from([b"RSID:", b"QRSID:"]), tokens)

SIMPLE: Frames = {
    Info: st.builds(Info, objects),
    Ping: st.builds(Ping),
    Pong: st.builds(Pong),
    Ok: st.builds(Ok),
}
CONNECTS: Frames = {Connect: st.builds(Connect, objects)}
ERRORS: Frames = {Err: st.builds(Err, texts)}
ACCOUNTS: Frames = {ASub: st.builds(ASub, accounts), AUnsub: st.builds(AUnsub, accounts)}
PUBLISHED: Frames = {
    Pub: st.builds(Pub, tokens, some_tokens, bodies),
    HPub: st.builds(HPub, tokens, some_tokens, bodies, bodies),
}


def subscribed(sids: st.SearchStrategy[bytes]) -> Frames:
    return {
        Sub: st.builds(Sub, tokens, sids, some_tokens),
        Unsub: st.builds(Unsub, sids, st.none() | numbers),
    }


def delivered(sids: st.SearchStrategy[bytes]) -> Frames:
    return {Msg: st.builds(Msg, tokens, sids, some_tokens, bodies)}


def interest(account: st.SearchStrategy[bytes]) -> Frames:
    return {
        RSub: st.builds(RSub, tokens, account) | st.builds(RSub, tokens, account, tokens, numbers),
        RUnsub: st.builds(RUnsub, tokens, account, some_tokens),
    }


def routed(account: st.SearchStrategy[bytes]) -> Frames:
    return {
        RMsg: st.builds(RMsg, tokens, account, some_tokens, queues, bodies),
        RHMsg: st.builds(RHMsg, tokens, account, some_tokens, queues, bodies, bodies),
    }


def of_leafnodes(context: Context) -> Frames:
    nothing = st.just(b"")
    on_route = context.kind is Kind.ROUTE
    account = tokens if on_route and not context.dedicated else nothing
    origin = tokens if on_route else nothing
    origin_of_minus = origin if context.lnocu else nothing
    headers = bodies if on_route else nothing
    return {
        LSub: st.builds(LSub, tokens, account, origin)
        | st.builds(LSub, tokens, account, origin, tokens, numbers),
        LUnsub: st.builds(LUnsub, tokens, account, origin_of_minus, some_tokens),
        LMsg: st.builds(LMsg, tokens, account, origin, some_tokens, queues, headers, bodies),
    }


def carried(context: Context) -> Frames:
    """What the sender of `context` can say, by class of frame."""
    account = st.just(b"") if context.dedicated else tokens
    found = {**SIMPLE, **(CONNECTS if context.sender is Role.CLIENT else {})}
    match context.kind, context.sender:
        case Kind.CLIENT, Role.CLIENT:
            return {**found, **PUBLISHED, **subscribed(tokens)}
        case Kind.CLIENT, Role.SERVER:
            headed: st.SearchStrategy[Frame] = st.builds(
                HMsg, tokens, tokens, some_tokens, bodies, bodies
            )
            return {**found, **ERRORS, **delivered(tokens), HMsg: headed}
        case Kind.ROUTE, _:
            links = {**interest(account), **routed(account), **of_leafnodes(context)}
            old = {**subscribed(rsids), **delivered(rsids)}
            return {**found, **ERRORS, **ACCOUNTS, **PUBLISHED, **old, **links}
        case Kind.GATEWAY, Role.CLIENT:
            return {**found, **ERRORS, **routed(tokens)}
        case Kind.GATEWAY, Role.SERVER:
            return {**found, **ERRORS, **ACCOUNTS, **interest(tokens)}
        case Kind.LEAFNODE, _:
            headed = routed(st.just(b""))[RHMsg]
            own = {**of_leafnodes(context), RHMsg: headed}
            return {**found, **ERRORS, **ACCOUNTS, **PUBLISHED, **own}
    return {**found, **ERRORS}


BY_CONTEXT = {context: carried(context) for context in CONTEXTS}
ANY_FRAME = {context: st.one_of(*of.values()) for context, of in BY_CONTEXT.items()}


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Context, list[Frame]]:
    context = draw(contexts)
    return context, draw(st.lists(ANY_FRAME[context], max_size=8))


_WORDS = st.sampled_from(
    [
        b" ",
        b"\t",
        b"\r\n",
        b"\n",
        b"\r",
        b"+",
        b"|",
        b"{}",
        b"5",
        b"0",
        b"12",
        b"hello",
        b"RSID:1:1",
    ]
    + sorted({row.wire.split()[0] for row in ROWS})
)
wires = st.one_of(
    st.binary(max_size=60),
    st.lists(_WORDS, max_size=20).map(b"".join),
    st.lists(st.sampled_from([row.wire for row in ROWS if len(row.wire) < 100]), max_size=6).map(
        b"".join
    ),
)
"""Bytes: any, made of NATS words, or whole frames, which may have no place in their context."""
