"""Divides whole flows among tasks, each of which reads all packets and dissects the flows of its share.

    samples = [sampled(packets_of_a_partition), ...]
    shares = divided(samples, 2)
    parser = shares.parser(0)      # passes on the segments of share 0

No task then needs the state in which a flow reaches the middle of a capture, so a few tasks finish sooner
than if they cut the capture: `is_faster` estimates that. The samples only balance the work of the shares: any
division gives the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from ..packet import PacketParser, flow_hash
from ..types import Packets, Segment

# The sizes in bytes of captures that are worth a sample: a smaller one takes a second either way, and a task
# that fails would have to read all of a larger one again.
CAPTURE_BYTES = range(32 << 20, 4 << 30)
# Packets in the sample of a partition, and flows that are assigned to shares by their work: others are small.
_SAMPLED = 4096
_FLOWS = 4096
# The time to dissect all packets, and the time to survey, stitch and decode them in chunks, as multiples of
# the time to read them; then to do all of it with the kernel. Per packet: read 2.6 us, dissect 18 us, in
# chunks 44 us, with the kernel 5 us (a million packets, no subject repeats, CPython 3.11).
_DISSECT = 7
_IN_CHUNKS = 17
_WITH_KERNEL = 2


@dataclass(frozen=True, slots=True)
class FlowShares:
    """A division of flows into `count` shares. `assigned` has the shares of some flows by their `flow_hash`;
    the hash itself divides the others. `largest` is the fraction of the sampled work in the largest share.
    """

    count: int
    assigned: Mapping[int, int]
    largest: float = 1.0

    def parser(self, number: int) -> PacketParser:
        """A parser that passes on the segments of one share, and ticks of the others."""
        share_of, count = self.assigned.get, self.count
        if count == 1:
            return PacketParser()
        return PacketParser(lambda value: share_of(value, value % count) == number)

    def is_faster(self, tasks: int) -> bool:
        """Whether all shares at once take less time than the capture in chunks, `tasks` of them at once."""
        return 1 + _DISSECT * self.largest < _IN_CHUNKS / tasks


WHOLE = FlowShares(1, {})
"""All flows in one share."""


def is_faster_with_kernel(shares: int) -> bool:
    """Whether one task with the kernel takes less time than so many equal shares at once without it."""
    return 1 + _DISSECT / shares > _WITH_KERNEL


def sampled(packets: Iterable[Packets]) -> Counter[int]:
    """The work for each flow in the first packets: the number of packets with payload, by `flow_hash`."""
    work: Counter[int] = Counter()
    for segment in islice(PacketParser().feed(packets), _SAMPLED):
        if isinstance(segment, Segment) and segment.length:
            work[flow_hash(segment.key)] += 1
    return work


def divided(samples: Iterable[Counter[int]], count: int) -> FlowShares:
    """Divides the flows of samples into `count` shares of about the same work."""
    work: Counter[int] = Counter()
    for sample in samples:
        work.update(sample)
    assigned: dict[int, int] = {}
    loads = [0] * count
    for rank, (flow, amount) in enumerate(work.most_common()):
        share = flow % count
        if rank < _FLOWS:
            share = assigned[flow] = loads.index(min(loads))
        loads[share] += amount
    return FlowShares(count, assigned, max(loads) / sum(loads) if work else 1.0)
