"""What the kernel reads as a line or as headers, `natsync.protocol` and the session read in the same way."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dissect.nats.kernel import lines, state
from dissect.nats.kernel.handover import OPERATIONS, grammar_of
from dissect.nats.kernel.jit import Array
from dissect.nats.sessions.delta import is_publishable
from dissect.nats.sessions.headers import _WELL_FORMED
from natsync.protocol import Context, Kind, Message, ProtocolError, Role
from natsync.protocol.grammar import Limits, grammar

from tests.dissector.kernel.both import KERNEL

pytestmark = KERNEL

CONTEXTS = [
    Context(role, kind, dedicated)
    for role in Role
    for kind in Kind
    for dedicated in (False, True)
    if kind is Kind.ROUTE or not dedicated
]
OPS = "PUB HPUB MSG HMSG RMSG LMSG SUB UNSUB PING PONG +OK INFO CONNECT -ERR RS+ LS- pub A+".split()
TOKENS = "a a.b $JS.API.X > * + | 1 5 12 0 999999999 1234567890 RSID:1:2 QRSID:3:4 é -1 07".split()


def text_of(data: bytes) -> Array:
    return np.frombuffer(data, np.uint8)


def random_line(rng: random.Random) -> bytes:
    words = [rng.choice(OPS), *rng.choices(TOKENS, k=rng.choice((0, 1, 2, 3, 4, 5, 8)))]
    line = rng.choice((" ", " ", " ", " ", "  ", "\t")).join(words).encode() + b"\r\n"
    if rng.random() < 0.1:
        at = rng.randrange(len(line))
        line = line[:at] + rng.choice((b"\r", b" ", b"\x0b", b"x")) + line[at:]
    return line


@pytest.mark.parametrize("context", CONTEXTS, ids=str)
def test_a_line_that_is_read_means_the_same_to_the_codec(context: Context) -> None:
    rng = random.Random(str(context))
    number: int = getattr(lines, grammar_of(context))
    found = np.zeros(state.L_WIDTH, np.int64)
    read = 0
    for _ in range(4000):
        line = random_line(rng)
        if b"\n" in line[:-1] or not lines.parse(text_of(line), 0, len(line), number, found):
            continue
        frame, size, header_size, _ = grammar(context, Limits()).read(line)
        assert type(frame) is OPERATIONS[found[state.L_OP]]
        assert found[state.L_SIZE] == size
        assert found[state.L_HEADERS] == header_size
        if isinstance(frame, Message):
            subject, reply = (
                line[found[start] : found[start + 1]] for start in (state.L_SUBJECT, state.L_REPLY)
            )
            assert (subject, reply) == (getattr(frame, "subject"), getattr(frame, "reply"))
        read += 1
    assert read > 20


@pytest.mark.parametrize("context", CONTEXTS, ids=str)
def test_a_line_that_may_begin_is_no_error_yet(context: Context) -> None:
    number: int = getattr(lines, grammar_of(context))
    starts = {line[:size] for line in (op.encode() + b" a\r" for op in OPS) for size in range(1, 6)}
    begun = 0
    for start in [*starts, b"XY", b"P", b"PX", b"PINGX"]:
        if lines.may_begin(text_of(start), len(start), number):
            begun += 1
            try:
                grammar(context, Limits()).check_start(bytearray(start), 0)
            except ProtocolError:
                pytest.fail(f"{start!r} is an error at once")
    assert begun


def test_subjects_and_headers_are_judged_as_the_session_does() -> None:
    rng = random.Random(1)
    for _ in range(3000):
        parts = rng.choices(["a", "*", ">", "", "$JS", "b*", ".", "$JS.x"], k=rng.randrange(1, 5))
        subject = ".".join(parts).encode()
        text = text_of(subject + b" ")
        assert lines.is_publishable(text, 0, len(subject)) == is_publishable(subject), subject
    pieces = [
        b"NATS/1.0",
        b" ",
        b"503",
        b"50",
        b"\r\n",
        b"\r\n",
        b"A: b",
        b"A:b",
        b":",
        b" x",
        b"\n",
    ]
    good = 0
    for _ in range(20_000):
        block = b"NATS/1.0" * (rng.random() < 0.9) + b"".join(
            rng.choices(pieces, k=rng.randrange(1, 7))
        )
        judged = lines.are_good_headers(text_of(block + b"!"), 0, len(block))
        assert judged == bool(_WELL_FORMED.fullmatch(block)), block
        good += judged
    assert good > 100


@pytest.mark.parametrize(
    ("subject", "payload", "special", "streaming"),
    [
        (b"orders.eu", b"", False, False),
        (b"orders.eu", b"\x07", False, False),
        (b"orders.eu", b"\x08", False, True),
        (b"a.b", b"\nx", False, True),
        (b"_STAN.pub", b"x", False, True),
        (b"x._STAN.", b"", False, False),
        (b"$JS.ACK.a", b"", True, False),
        (b"_GR_.123456.123456.$JS.ACK.a", b"", True, False),
        (b"my.STREAM.INFO.a", b"", True, False),
        (b"my.CONSUMER.LIST.a", b"", True, False),
        (b"my.DIRECT.GET.a", b"", True, False),
        (b"my.STREAMS.a", b"", False, False),
        (b"STREAM.INFO.a", b"", False, False),
    ],
)
def test_messages_that_layers_may_read(
    subject: bytes, payload: bytes, special: bool, streaming: bool
) -> None:
    text, body = np.frombuffer(subject, np.uint8), np.frombuffer(payload + b"\r\n", np.uint8)
    size = len(subject)
    assert lines.is_special(text, 0, size) == special
    assert lines.begins_streaming(body, 0, len(payload), text, 0, size) == streaming
