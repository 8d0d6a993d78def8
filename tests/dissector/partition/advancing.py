"""Helpers for tests of summaries: conversations of one flow, and comparisons of advanced with true states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dissect.nats import Options, tables
from dissect.nats.partition.checkpoint import Checkpoints
from dissect.nats.partition.chunk_summary import (
    Bytes,
    ChunkSummary,
    FrameBatch,
    SkippedFrames,
    Step,
    unpacked,
)
from dissect.nats.partition.survey import Survey
from dissect.nats.schema.records import Record
from dissect.nats.tcp.flow import undirected
from dissect.nats.types import Segment
from natsync.protocol import Context, Decoder

from tests.bench.generate import Plan, write
from tests.support.graphs import difference
from tests.support.paths import CAPTURES
from tests.support.segments import segments
from tests.support.tcp_conversation import ACK, SYN, TcpConversation

TABLES = list(tables.FROM_ENGINE)
OPTIONS = Options()
_CLIENT, _SERVER = bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))
_PORTS = (40000).to_bytes(2, "big"), (4222).to_bytes(2, "big")
KEYS = (_CLIENT + _SERVER + _PORTS[0] + _PORTS[1], _SERVER + _CLIENT + _PORTS[1] + _PORTS[0])
NAME = undirected(KEYS[0])
INFO = b'INFO {"server_id":"NA","version":"2.10.0","headers":true,"max_payload":1000}\r\n'
CONNECT = b'CONNECT {"verbose":false,"lang":"go","version":"1"}\r\nPING\r\n'


@dataclass
class Outcome:
    """The number of summaries by result, and of flows without a summary (`unclean`)."""

    advanced: int = 0
    refused: int = 0
    unclean: int = 0

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.advanced + other.advanced,
            self.refused + other.refused,
            self.unclean + other.unclean,
        )


def quiet(tables: Sequence[str], options: Options) -> Checkpoints:
    return Checkpoints(tables, options, quiet=True)


def surveyed(
    part: Sequence[Segment], tables: Sequence[str] = TABLES, options: Options = OPTIONS
) -> dict[bytes, bytes]:
    survey = Survey(tables, options)
    survey.run(part)
    summaries = survey.summaries()
    for packed in summaries.values():
        claims_hold(part, unpacked(packed))
    return summaries


def claims_hold(part: Sequence[Segment], summary: ChunkSummary) -> None:
    """Checks the claims of a summary that need no state: its steps have each byte once, in order, and skipped
    frames are read from these bytes as it says, whatever was before."""
    counted: list[Counter[str]] = [Counter(), Counter()]
    read: list[Counter[str]] = [Counter(), Counter()]
    places = [0, 0]
    streams = [
        b"".join(s.payload for s in part if s.key == direction.key)
        for direction in summary.directions
    ]
    for step in summary.steps or []:
        if isinstance(step, Bytes):
            chunk = step.chunk
            assert chunk.offset == places[step.index]
            places[step.index] += len(chunk.data)
            assert streams[step.index][chunk.offset : places[step.index]] == chunk.data
        elif isinstance(step, SkippedFrames):
            assert step.start == places[step.index]
            places[step.index] = step.end
            ops = Counter(read_as(step.context, streams[step.index][step.start : step.end]))
            assert ops.total() == step.frames and ops.keys() == step.ops
            read[step.index] += ops
        elif isinstance(step, FrameBatch):
            counted[step.index].update(frame.op for frame in step.batch.frames)
        else:
            for way, amount in enumerate(step.sums):
                for kind, count in amount.counts.items() if amount else ():
                    counted[way][kind.op] += count
    assert counted == read
    assert summary.steps is None or places == [direction.size for direction in summary.directions]


def read_as(context: Context, data: bytes) -> list[str]:
    """The operations of whole frames."""
    decoder = Decoder(context.sender, context.kind)
    decoder.learn(dedicated=context.dedicated, lnocu=context.lnocu)
    decoder.feed(data)
    ops = [frame.op for frame in decoder.read()]
    assert decoder.idle and not {"INFO", "CONNECT"} & set(ops)
    return ops


def check(
    every: Sequence[Segment],
    cuts: Sequence[int],
    tables: Sequence[str] = TABLES,
    options: Options = OPTIONS,
) -> Outcome:
    """Advances the true state before each partition, and compares the result with the true state after it."""
    outcome = Outcome()
    dissection = quiet(tables, options)
    before: dict[bytes, bytes] = {}
    for start, stop in zip([0, *cuts], [*cuts, len(every)]):
        part = every[start:stop]
        summaries = surveyed(part, tables, options)
        list(dissection.feed(part))
        after = dissection.save()
        outcome.unclean += len({undirected(s.key) for s in part} & before.keys() - summaries.keys())
        for name in summaries.keys() & before.keys():
            reached = quiet(tables, options).advanced(before[name], summaries[name])
            if reached is None:
                outcome.refused += 1
                continue
            outcome.advanced += 1
            is_the_same(reached, after[name])
        before = after
    return outcome


def opened(state: bytes) -> object:
    return quiet(TABLES, OPTIONS)._unpacked(state)


def is_the_same(reached: bytes, true: bytes) -> None:
    found = difference(opened(reached), opened(true))
    assert (
        not found
    ), f"{found}: do SessionDelta and Session.add_delta have what plain frames change?"


def even(size: int, parts: int) -> list[int]:
    return [size * at // parts for at in range(1, parts)]


def sample(name: str) -> list[Segment]:
    return list(segments([str(CAPTURES / name)]))


def generated(plan: Plan, folder: object) -> list[Segment]:
    path = f"{folder}/bench.pcap"
    with open(path, "wb") as file:
        write(file, plan)
    return list(segments([path]))


class ScriptedFlow(TcpConversation[int]):
    """Segments of one flow of a client, each side in order: 0 is the client, 1 the server."""

    def __init__(
        self,
        greeted: bool = True,
        places: tuple[int, int] = (1000, 2**32 - 500),
        start_ns: int = 10**18,
        scale: int | None = None,
    ) -> None:
        super().__init__(0, 1, places)
        self.segments: list[Segment] = []
        self._ns = start_ns
        self.windows = [65535, 65535]
        self.scale = scale  # of both windows
        if greeted:
            self.raw(0, b"", SYN)
            self.raw(1, b"", SYN | ACK)
            self.say(1, INFO)
            self.say(0, CONNECT)
            self.say(1, b"PONG\r\n")

    def emit(self, sender: int, flags: int, seq: int, ack: int, payload: bytes) -> None:
        where = self._ns, len(self.segments) + 1, "a.pcap", KEYS[sender]
        self.segments.append(
            Segment(
                *where,
                seq,
                ack,
                flags,
                payload,
                len(payload),
                window=self.windows[sender],
                window_scale=self.scale if flags & SYN else None,
            )
        )

    def raw(self, side: int, data: bytes, flags: int = ACK, after_ns: int = 1000) -> None:
        """One segment, so long after the one before."""
        self._ns += after_ns
        self.packet(side, flags, data)

    def say(self, side: int, data: bytes, size: int = 1448) -> int:
        """The number of segments so far, all packets of `data` included."""
        for at in range(0, len(data), size):
            self.raw(side, data[at : at + size])
        self.raw(1 - side, b"")
        return len(self.segments)

    @property
    def here(self) -> int:
        return len(self.segments)


def advances(
    every: Sequence[Segment],
    start: int,
    stop: int | None = None,
    change: Callable[[ChunkSummary], None] | None = None,
    options: Options = OPTIONS,
) -> bool:
    """Whether the flow's state advances across a partition. If so, checks that it is the true state, and that
    the rows after it are the true rows."""
    stop = len(every) if stop is None else stop
    dissection = quiet(TABLES, options)
    list(dissection.feed(every[:start]))
    before = dissection.save()[NAME]
    packed = surveyed(every[start:stop], options=options).get(NAME)
    if packed is None:
        return False
    if change:
        summary = unpacked(packed)
        change(summary)
        packed = summary.packed()
    reached = quiet(TABLES, options).advanced(before, packed)
    if reached is None:
        return False
    list(dissection.feed(every[start:stop]))
    after = dissection.save()[NAME]
    is_the_same(reached, after)
    rows = [rows_from(state, every[stop:], options) for state in (reached, after)]
    assert rows[0] == rows[1]
    return True


def rows_from(state: bytes, rest: Sequence[Segment], options: Options) -> list[Record]:
    dissection = Checkpoints(TABLES, options)
    dissection.load([state])
    delivered = [*dissection.feed(rest), *dissection.finish()]
    return [record for rows in delivered for record in rows.records]


def steps(every: Sequence[Segment], start: int) -> list[Step]:
    steps = unpacked(surveyed(every[start:])[NAME]).steps
    assert steps is not None
    return steps


def pub(subject: bytes, body: bytes = b"x" * 700, reply: bytes = b"") -> bytes:
    return b"PUB %b %b%d\r\n%b\r\n" % (subject, reply and reply + b" ", len(body), body)


def msg(subject: bytes, sid: int, body: bytes = b"x" * 700, reply: bytes = b"") -> bytes:
    return b"MSG %b %d %b%d\r\n%b\r\n" % (subject, sid, reply and reply + b" ", len(body), body)


def plain(messages: int = 40) -> ScriptedFlow:
    """A client that subscribed, publishes and gets messages: from segment `here` on nothing else."""
    flow = ScriptedFlow()
    flow.say(0, b"SUB a.b 1\r\nSUB r.* 2\r\n")
    flow.say(0, pub(b"orders.new") * 3)
    return flow


def go_on(flow: ScriptedFlow, times: int = 12) -> ScriptedFlow:
    for _ in range(times):
        flow.say(0, pub(b"orders.new") * 2)
        flow.say(1, msg(b"a.b", 1) * 3)
    return flow


PUB = b"PUB a.b 5\r\nhello\r\n"


def packets(*sent: tuple[int, bytes]) -> list[Segment]:
    """Segments of one flow, midstream: side and bytes."""
    flow = ScriptedFlow(greeted=False, places=(5, 7), start_ns=0)
    for side, data in sent:
        flow.raw(side, data)
    return flow.segments


def summary_of(every: list[Segment], options: Options = OPTIONS) -> ChunkSummary:
    return unpacked(surveyed(every, options=options)[NAME])


def steps_of(every: list[Segment], options: Options = OPTIONS) -> list[Step]:
    found = summary_of(every, options).steps
    assert found is not None
    return found
