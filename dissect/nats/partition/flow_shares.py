"""Divides whole flows among tasks, each of which reads all packets and dissects the flows of its share.

    samples = [sampled(packets_of_a_partition), ...]
    shares = divided(samples, 2)
    parser = PacketParser(shares.share(0).has)    # passes on the segments of share 0

No task then needs the state in which a flow reaches the middle of a capture, so a few tasks finish sooner
than if they cut the capture: `is_faster` estimates that. The samples only balance the work of the shares: any
division gives the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from ..packet import PacketParser, flow_hash
from ..types import Packets, Segment, Share

# Of captures that are worth a sample: a smaller one takes a second either way.
LEAST_BYTES = 32 << 20
# Packets in the sample of a partition, and buckets of flows that are assigned to shares by their work.
_SAMPLED = 4096
_BUCKETS = 4096


class Costs(NamedTuple):
    """Microseconds for a packet: to pass over it, to dissect it, and to survey, stitch and decode it; and the
    size of the largest captures: a task that fails has to read all of them again."""

    pass_over: float
    dissect: float
    in_chunks: float
    most_bytes: int


# A million packets, no subject repeats, CPython 3.11.
PYTHON = Costs(2.6, 18, 44, 4 << 30)
KERNEL = Costs(0.8, 4.2, 31, 16 << 30)


@dataclass(frozen=True, slots=True)
class FlowShares:
    """A division of flows into `count` shares, as the buckets of `types.Share`. `largest` is the fraction of
    the sampled work in the largest share."""

    count: int
    buckets: Sequence[int]
    largest: float = 1.0

    def share(self, number: int) -> Share:
        """One of the shares."""
        return Share(number, self.buckets)

    def is_faster(self, tasks: int, costs: Costs = PYTHON) -> bool:
        """Whether all shares at once take less time than the capture in chunks, `tasks` of them at once."""
        return costs.pass_over + costs.dissect * self.largest < costs.in_chunks / tasks


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
        for flow, amount in sample.items():
            work[flow % _BUCKETS] += amount
    buckets = [bucket % count for bucket in range(_BUCKETS)]
    loads = [0] * count
    for bucket, amount in work.most_common():
        buckets[bucket] = loads.index(min(loads))
        loads[buckets[bucket]] += amount
    return FlowShares(count, tuple(buckets), max(loads) / sum(loads) if work else 1.0)
