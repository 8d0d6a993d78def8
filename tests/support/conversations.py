"""Conversations without packets: bytes of both sides, straight into the framing of the dissector."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from dissect.nats.framing import ConnectionFraming, Quota, Verdict
from dissect.nats.framing.events import Batch, Event, Note, RolesSwapped
from dissect.nats.framing.frame_stream import ByteCounts
from dissect.nats.types import Chunk, Direction, Gap
from natsync.protocol import Frame, Kind

from tests.support.damage import read_pcap, stream_offsets
from tests.support.sums import OWN_SUMS

ORIGINATOR, RESPONDER = Direction
INFO = b'INFO {"server_id":"NS","server_name":"s","client_id":5,"headers":true} \r\n'
CONNECT = b'CONNECT {"verbose":false,"lang":"go","name":"c"}\r\n'


class FramedConversation:
    """A conversation that is being fed; every call is one packet."""

    def __init__(
        self, midstream: bool = False, payloads: bool = True, hint: Kind | None = None
    ) -> None:
        self.framing = ConnectionFraming(midstream, payloads, Quota(), hint)
        self.swapped = (
            False  # whether the framing calls the originator the responder, and vice versa
        )
        self.events: list[Event] = []
        self.ends = {ORIGINATOR: 0, RESPONDER: 0}
        self.packets = 0

    def say(self, sender: Direction, *packets: bytes) -> FramedConversation:
        """Each of `packets` from `sender`."""
        for data in packets:
            self.packets += 1
            chunk = Chunk(self.packets * 1000, self.packets, "t.pcap", self.ends[sender], data)
            self.ends[sender] += len(data)
            self._feed(sender, chunk)
        return self

    def play(self, items: Sequence[tuple[Direction, Chunk | Gap]]) -> FramedConversation:
        """What was captured, as it is."""
        for sender, item in items:
            size = item.length if isinstance(item, Gap) else len(item.data)
            self.ends[sender] = item.offset + size
            self._feed(sender, item)
            if self.swapped:
                raise AssertionError("the capture shows who opened the connection")
        return self

    def play_at_once(self, sender: Direction, items: Sequence[Chunk | Gap]) -> FramedConversation:
        """What one side sent, in one call."""
        for item in items:
            self.ends[sender] += item.length if isinstance(item, Gap) else len(item.data)
        self._keep(self.framing.feed(sender, items))
        return self

    def lose(self, sender: Direction, size: int, truncated: bool = False) -> FramedConversation:
        """A gap in the bytes of `sender`."""
        gap = Gap(
            self.packets * 1000, self.packets + 1, "t.pcap", self.ends[sender], size, truncated
        )
        self.ends[sender] += size
        self._feed(sender, gap)
        return self

    def client(self) -> FramedConversation:
        """The beginning of a client connection."""
        return self.say(RESPONDER, INFO).say(ORIGINATOR, CONNECT)

    def over(self) -> FramedConversation:
        """The end; the sums must close."""
        self._keep(self.framing.finish())
        if self.framing.verdict is Verdict.NATS:
            for sender, end in self.ends.items():
                way = sender.other if self.swapped else sender
                counts = self._counts(way, end)
                parts = (counts.framed, counts.skipped, counts.missing, counts.unfinished)
                assert min(parts) >= 0 and counts.opaque <= counts.skipped
                assert self._noted(way, "skipped") == counts.skipped - counts.opaque
                assert self._noted(way, "unfinished") == counts.unfinished
                assert self._noted(way, "lost", "truncated") == counts.missing
        return self

    def _counts(self, way: Direction, end: int) -> ByteCounts:
        """The sums of one direction: of all of it, or of the plaintext of its highest layer."""
        layers = self.framing.stack.byte_counts(way)
        decoded = OWN_SUMS.intersection(layers) - {"tls"}  # there are no secrets here
        if not decoded:
            counts = self.framing.byte_counts(way)
            assert counts.span == end, (way, counts)
            return counts
        stream = self.framing.stream(way)
        assert stream.counts.span == stream.end, (way, stream.counts)
        skipped = sum(layers[name].skipped for name in decoded)
        return replace(stream.counts, skipped=stream.counts.skipped + skipped)

    def _feed(self, sender: Direction, item: Chunk | Gap) -> None:
        self._keep(self.framing.feed(sender.other if self.swapped else sender, [item]))

    def _keep(self, events: list[Event] | RolesSwapped) -> None:
        if isinstance(events, RolesSwapped):
            self.swapped = not self.swapped
            events = events.events
        self.events += events

    def _noted(self, sender: Direction, *names: str) -> int:
        """How many bytes the oddities of these names are about."""
        notes = (event for event in self.events if isinstance(event, Note))
        return sum(
            note.length
            for note in notes
            if note.direction is sender and note.anomaly.value in names
        )

    @property
    def notes(self) -> list[tuple[str, int, int]]:
        """Name, offset and length of every oddity."""
        notes = (event for event in self.events if isinstance(event, Note))
        return [(note.anomaly.value, note.offset, note.length) for note in notes]

    def frames(self, sender: Direction) -> list[Frame]:
        """The decoded frames of `sender`."""
        return [frame for batch in self.batches(sender) for frame in batch.frames]

    def ops(self, sender: Direction) -> list[str]:
        """The operations of `sender`."""
        return [frame.op for frame in self.frames(sender)]

    def batches(self, sender: Direction) -> Iterable[Batch]:
        """What was handed on of `sender`'s."""
        return [
            event for event in self.events if isinstance(event, Batch) and event.direction is sender
        ]

    def places(self) -> dict[tuple[Direction, int], Frame]:
        """All frames, by sender and offset; each is there once."""
        found: dict[tuple[Direction, int], Frame] = {}
        for event in self.events:
            if isinstance(event, Batch):
                for frame in event.frames:
                    assert (event.direction, frame.offset) not in found
                    found[event.direction, frame.offset] = frame
        return found


def recorded(path: Path) -> list[list[tuple[Direction, Chunk]]]:
    """The payload packets of each connection in a capture of whole connections, as chunks."""
    flows: dict[frozenset[str], list[tuple[Direction, Chunk]]] = {}
    openers: dict[frozenset[str], str] = {}
    ends: dict[str, int] = {}
    for position, (here, offset) in stream_offsets(read_pcap(path.read_bytes()).records).items():
        source, _, target = here.stream.partition(">")
        flow = frozenset((source, target))
        # The servers of the samples listen on ports below those that clients are given.
        opener = openers.setdefault(flow, max(source, target, key=_port))
        new = ends.get(here.stream, 0) - offset
        if 0 <= new < len(here.payload):
            chunk = Chunk(position, position + 1, path.name, offset + new, here.payload[new:])
            ends[here.stream] = offset + len(here.payload)
            way = ORIGINATOR if source == opener else RESPONDER
            flows.setdefault(flow, []).append((way, chunk))
    return list(flows.values())


def is_joined_late(items: Sequence[tuple[Direction, Chunk]]) -> bool:
    """Whether the first bytes are not a greeting: a capture of NATS Streaming begins after its server has
    connected."""
    return items[0][1].data[:4] in (b"MSG ", b"PUB ", b"PING")


def _port(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])
