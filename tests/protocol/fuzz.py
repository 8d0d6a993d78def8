"""Any bytes into the codec: `python -m tests.protocol.fuzz [SECONDS] [--seed S]`.

A run takes wires of the table and of real captures, damages them the way grammars break, and looks whether
the laws still hold: frames or ProtocolError and nothing else; the frames tile the stream; neither chunking
nor payloads that are not kept change what is said; what is written of a frame reads back equal. With atheris
(`pip install atheris`) the same laws are tried on what its coverage guides it to.

A failure is printed with the seed and the number of its run, which make it again, and with its bytes.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from natsync.protocol import (
    ConnectOptions,
    Context,
    Frame,
    Limits,
    Message,
    ProtocolError,
    ServerInfo,
    encode,
    parse_headers,
)

from tests.protocol.captured import WHOLE, connections, frames
from tests.protocol.feeding import by_bytes, cut, label, read
from tests.protocol.table import CONTEXTS, ROWS

LIMITS = (Limits(), Limits(64, 64), Limits(4096, 100), Limits(0, 0))
SEPARATORS = (b" ", b"\t", b"  ", b"\r\n", b"\n", b"\r", b"")
WORDS = (
    b"+",
    b"|",
    b"0",
    b"-1",
    b"5",
    b"999999999",
    b"1234567890",
    b"{}",
    b"RSID:1:1",
    b"\x00",
    b"Au ",
)
PIECE_BYTES = 400


@dataclass(frozen=True, slots=True)
class Case:
    """One input: the bytes, where they are cut, and how they are read."""

    context: Context
    wire: bytes
    edges: tuple[int, ...]
    limits: Limits = Limits()

    def __str__(self) -> str:
        return f"context {label(self.context)}, {self.limits}, cut at {self.edges}\n  {self.wire!r}"


def check(case: Case) -> None:
    """Raises AssertionError, or whatever the codec should not raise, if a law does not hold."""
    whole = read([case.wire], case.context, case.limits)
    assert whole.tiles(), "frames do not tile the stream"
    if whole.refusal:
        at = whole.refusal[1]
        assert at is not None and whole.end <= at < len(case.wire), "an error in the wrong place"
    for pieces in (cut(case.wire, case.edges), by_bytes(case.wire)):
        assert read(pieces, case.context, case.limits) == whole, "chunking matters"
    bare = read(cut(case.wire, case.edges), case.context, case.limits, payloads=False)
    assert (bare.places, bare.sizes, bare.refusal) == (whole.places, whole.sizes, whole.refusal)
    for frame in whole.frames:
        check_frame(frame, case.context)


def check_frame(frame: Frame, context: Context) -> None:
    try:
        if isinstance(frame, Message):
            parse_headers(getattr(frame, "headers", b""))
        elif hasattr(frame, "json"):
            repr((ServerInfo if frame.op == "INFO" else ConnectOptions).parse(frame.json))
    except ProtocolError:
        pass  # is what a reader of bad headers or JSON is told
    try:
        written = encode(frame, context)
    except ProtocolError:
        return  # some of what servers tolerate, like SUB on a 2.x route, is read and never written
    assert read([written], context).frames == [frame], "what is written does not read back equal"


@cache
def seeds() -> list[tuple[Context, bytes]]:
    """Good streams: all rows of the table, and pieces of captures that begin with a frame."""
    found = [(row.context, row.wire) for row in ROWS]
    for name in WHOLE:
        for connection in connections(name):
            for role, (decoder, of_role) in frames(connection).items():
                for frame in of_role[:: max(1, len(of_role) // 8)]:
                    piece = connection.sent[role][frame.offset : frame.offset + PIECE_BYTES]
                    found.append((decoder.context, piece))
    return found


def case_of(seed: int, run: int) -> Case:
    """The same case for the same numbers, always."""
    rng = random.Random(f"{seed}/{run}")
    context, wire = rng.choice(seeds())
    for _ in range(rng.randrange(4)):
        wire = rng.choice(MUTATIONS)(wire, rng)
    if rng.random() < 0.1:
        context = rng.choice(CONTEXTS)
    edges = tuple(sorted(rng.randrange(len(wire) + 1) for _ in range(rng.randrange(8))))
    limits = rng.choice(LIMITS) if rng.random() < 0.2 else Limits()
    return Case(context, wire, edges, limits)


def _flip(wire: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(wire) + 1)
    return wire[:at] + bytes([rng.randrange(256)]) + wire[at + 1 :]


def _insert(wire: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(wire) + 1)
    return wire[:at] + rng.choice(SEPARATORS + WORDS) + wire[at:]


def _delete(wire: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(wire) + 1)
    return wire[:at] + wire[at + rng.randrange(1, 5) :]


def _cut_off(wire: bytes, rng: random.Random) -> bytes:
    return wire[: rng.randrange(len(wire) + 1)]


def _append(wire: bytes, rng: random.Random) -> bytes:
    return wire + rng.choice(seeds())[1]


def _repeat(wire: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(wire) + 1)
    return wire[:at] * rng.randrange(1, 4) + wire[at:]


def _change_case(wire: bytes, rng: random.Random) -> bytes:
    size = rng.randrange(1, 8)
    return wire[:size].swapcase() + wire[size:]


def _change_token(wire: bytes, rng: random.Random) -> bytes:
    """Drops, doubles, replaces or swaps tokens of the first control line."""
    line, end, rest = wire.partition(b"\n")
    tokens = line.split(b" ")
    at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    match rng.randrange(4):
        case 0:
            del tokens[at]
        case 1:
            tokens.insert(other, tokens[at])
        case 2:
            tokens[at] = rng.choice(WORDS)
        case 3:
            tokens[at], tokens[other] = tokens[other], tokens[at]
    return b" ".join(tokens) + end + rest


def _change_separator(wire: bytes, rng: random.Random) -> bytes:
    old, new = rng.choice(SEPARATORS[:-1]), rng.choice(SEPARATORS)
    return wire.replace(old, new, rng.randrange(1, 3))


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(_flip, _insert, _delete, _cut_off, _append, _repeat, _change_case, _change_token),
    *(_change_token, _change_separator),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that breaks a law, and the numbers that make it again."""

    seed: int
    run: int
    case: Case
    error: Exception

    def __str__(self) -> str:
        again = f"case_of({self.seed}, {self.run})"
        return f"{type(self.error).__name__}: {self.error}\n  {again}: {self.case}"


def run(seconds: float, seed: int) -> tuple[int, Failure | None]:
    """Tries cases until the time is over or one breaks a law: how many there were, and that one."""
    end = time.monotonic() + seconds
    runs = 0
    while time.monotonic() < end:
        case = case_of(seed, runs)
        runs += 1
        try:
            check(case)
        except Exception as error:  # whatever it is: only ProtocolError may leave the codec
            return runs, Failure(seed, runs - 1, case, error)
    return runs, None


def guided(seconds: float) -> None:
    """The same laws on bytes of atheris; ends the process. The first bytes choose context and cuts."""
    import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]  # may be absent

    atheris.instrument_all()

    def one(data: bytes) -> None:
        head, wire = data[:4], data[4:]
        context = CONTEXTS[sum(head) % len(CONTEXTS)]
        check(Case(context, wire, tuple(head), LIMITS[len(wire) % len(LIMITS)]))

    atheris.Setup([sys.argv[0], f"-max_total_time={max(1, round(seconds))}", "-max_len=300"], one)
    atheris.Fuzz()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.protocol.fuzz", description=__doc__)
    parser.add_argument("duration", nargs="?", type=float, metavar="SECONDS", help="default: 60")
    parser.add_argument("--seconds", type=float, default=60.0, help="the same")
    parser.add_argument("--seed", type=int, default=None, help="repeats an earlier run")
    parsed = parser.parse_args(arguments)
    seconds = parsed.seconds if parsed.duration is None else parsed.duration
    if parsed.seed is None and importlib.util.find_spec("atheris"):
        guided(seconds)
    seed = random.randrange(2**32) if parsed.seed is None else parsed.seed
    print(f"seed {seed}, {len(seeds())} streams to damage", flush=True)
    runs, failure = run(seconds, seed)
    print(f"{runs} runs, {runs / seconds:.0f} a second")
    if failure:
        print(failure)
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
