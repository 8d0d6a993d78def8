"""Any bytes into the codec of NATS Streaming: `python -m tests.protocol.fuzz_streaming [SECONDS] [--seed S]`.

A run takes a good message, damages it the way protobuf breaks, and looks whether the laws hold: a message or
ProtocolError and nothing else; an error inside the payload; what was read is written, and reads back equal.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from natsync.protocol import ProtocolError
from natsync.protocol import streaming as stan
from natsync.protocol.streaming import MESSAGES, StreamingMessage

SEEDS = (
    stan.ConnectRequest("me", "_INBOX.a", 1, b"\0\xff", 5, 88),
    stan.ConnectResponse("_STAN.pub.c", *"abcd", "_STAN.subclose.c", "p", 5, 3, 1, "key"),
    stan.PubMsg("me", "guid", "orders.new", "reply", b"x" * 200, b"conn", b"sha"),
    stan.MsgProto(2**64 - 1, "orders.new", "", b"data", -1, True, 2**32 - 1, 7),
    stan.SubscriptionRequest("me", "a", "q", "_INBOX.b", -1, 30, "dur", 4, 2**63, -(2**63)),
    stan.SubscriptionResponse("_INBOX.c", "stan: invalid subject"),
    stan.Ack("orders.new", 300),
    stan.Ping(b"conn"),
)
WIRES = [seed.to_bytes() for seed in SEEDS]
PIECES = (
    *(b"\xff" * 9 + b"\x01", b"\xff" * 11, b"\x80\0", b"\xff\xff\xff\xff\x07", b"\0", b"\x0a"),
    *(b"\xc0\x3e\x07", b"\xd1\x3e" + bytes(8), b"\xdd\x3e" + bytes(4), b"\x0b\x0c", b"\x0f"),
)
Case = tuple[type[StreamingMessage], bytes]


def check(cls: type[StreamingMessage], wire: bytes) -> None:
    """Raises AssertionError, or whatever the codec should not raise, if a law does not hold."""
    try:
        message = cls.parse(wire)
    except ProtocolError as error:
        assert error.offset is not None and 0 <= error.offset < len(wire), "an error outside"
        return
    written = message.to_bytes()
    assert cls.parse(written) == message, "what is written does not read back equal"
    assert cls.parse(written).to_bytes() == written, "it is not written the same again"


def case_of(seed: int, run: int) -> Case:
    """The same case for the same numbers, always."""
    rng = random.Random(f"{seed}/{run}")
    wire = rng.choice(WIRES) if rng.random() < 0.9 else rng.randbytes(rng.randrange(40))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(wire) + 1)
        match rng.randrange(4):
            case 0:
                wire = wire[:at] + bytes([rng.randrange(256)]) + wire[at + 1 :]
            case 1:
                wire = wire[:at] + rng.choice(PIECES) + wire[at:]
            case 2:
                wire = wire[:at] + wire[at + rng.randrange(1, 5) :]
            case 3:
                wire = wire[:at]
    return rng.choice(MESSAGES), wire


def run(seconds: float, seed: int, most: int | None = None) -> tuple[int, str | None]:
    """Tries cases until the time is over, there were `most`, or one breaks a law: how many, and that one."""
    end = time.monotonic() + seconds
    runs = 0
    while runs != most and time.monotonic() < end:
        cls, wire = case_of(seed, runs)
        try:
            check(cls, wire)
        except Exception as error:  # whatever it is: only ProtocolError may leave the codec
            return runs + 1, f"{error!r}\n  case_of({seed}, {runs}): {cls.__name__} {wire!r}"
        runs += 1
    return runs, None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.protocol.fuzz_streaming", description=__doc__
    )
    parser.add_argument("seconds", nargs="?", type=float, default=60.0, help="default: 60")
    parser.add_argument("--seed", type=int, default=None, help="repeats an earlier run")
    parser.add_argument("--runs", type=int, default=None, help="end after so many")
    parsed = parser.parse_args(arguments)
    seed = random.randrange(2**32) if parsed.seed is None else parsed.seed
    start = time.monotonic()
    runs, failure = run(parsed.seconds, seed, parsed.runs)
    print(f"seed {seed}: {runs} messages in {time.monotonic() - start:.0f} s")
    if failure:
        print(failure)
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
