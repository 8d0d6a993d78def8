"""Conversations without packets: bytes of both sides, straight into the framing of the dissector."""

from __future__ import annotations

from collections.abc import Iterable

from dissect.nats.events import Batch, Event, Note
from dissect.nats.framing import Budget, Conversation
from dissect.nats.wire import Chunk, Direction, Gap
from natsync.protocol import Frame, Kind

ORIGINATOR, RESPONDER = Direction
INFO = b'INFO {"server_id":"NS","server_name":"s","client_id":5,"headers":true} \r\n'
CONNECT = b'CONNECT {"verbose":false,"lang":"go","name":"c"}\r\n'


class Said:
    """A conversation that is being fed; every call is one packet."""

    def __init__(
        self, midstream: bool = False, payloads: bool = True, hint: Kind | None = None
    ) -> None:
        self.conversation = Conversation(midstream, payloads, Budget(), hint)
        self.events: list[Event] = []
        self.ends = {ORIGINATOR: 0, RESPONDER: 0}
        self.packets = 0

    def say(self, sender: Direction, *packets: bytes) -> Said:
        """Each of `packets` from `sender`."""
        for data in packets:
            self.packets += 1
            chunk = Chunk(self.packets * 1000, self.packets, "t.pcap", self.ends[sender], data)
            self.ends[sender] += len(data)
            self.events += self.conversation.take(sender, [chunk])
        return self

    def lose(self, sender: Direction, size: int, truncated: bool = False) -> Said:
        """A hole in what `sender` said."""
        gap = Gap(
            self.packets * 1000, self.packets + 1, "t.pcap", self.ends[sender], size, truncated
        )
        self.ends[sender] += size
        self.events += self.conversation.take(sender, [gap])
        return self

    def client(self) -> Said:
        """The beginning of a client connection."""
        return self.say(RESPONDER, INFO).say(ORIGINATOR, CONNECT)

    def over(self) -> Said:
        """The end; the sums must close."""
        self.events += self.conversation.finish()
        if self.conversation.verdict.name != "OTHER":
            for sender, end in self.ends.items():
                way = sender.other if self.conversation.turned else sender
                ledger = self.conversation.ledger(way)
                assert ledger.span == end, (sender, ledger)
                parts = (ledger.framed, ledger.skipped, ledger.missing, ledger.unfinished)
                assert min(parts) >= 0
        return self

    @property
    def notes(self) -> list[tuple[str, int, int]]:
        """Name, offset and length of every oddity."""
        notes = (event for event in self.events if isinstance(event, Note))
        return [(note.anomaly.value, note.offset, note.length) for note in notes]

    def frames(self, sender: Direction) -> list[Frame]:
        """What `sender` said, as far as it was understood."""
        return [frame for batch in self.batches(sender) for frame in batch.frames]

    def ops(self, sender: Direction) -> list[str]:
        """The operations of `sender`."""
        return [frame.op for frame in self.frames(sender)]

    def batches(self, sender: Direction) -> Iterable[Batch]:
        """What was handed on of `sender`'s."""
        return [
            event for event in self.events if isinstance(event, Batch) and event.direction is sender
        ]
