"""Requests: their outcomes, their latency as a histogram, over time and by subject, and the slowest ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ... import outcomes
from ...durations import Durations, bucket_of
from ...schema.records import Record, RequestRecord
from ...subjects import generic
from ..bounded.collections import OTHERS, Keyed, Largest
from ..bounded.time_bins import TimeBins

SLOWEST = 25
SUBJECTS = 200


@dataclass(slots=True)
class Answers:
    """The requests of one subject."""

    requests: int = 0
    failures: int = 0
    latency: Durations = field(default_factory=Durations)

    @property
    def weight(self) -> int:
        """Requests, plus ten for each failure."""
        return self.requests + 10 * self.failures

    def merge(self, other: Answers) -> None:
        """Adds the requests of another subject."""
        self.requests += other.requests
        self.failures += other.failures
        self.latency.merge(other.latency)


def others(key: str) -> str:
    """The key under which rare keys are merged."""
    return OTHERS


class Requests:
    """All requests of clients."""

    tables = ("requests",)

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.latency = Durations()
        self.over_time: TimeBins[int] = TimeBins()
        self.slowest: Largest[RequestRecord] = Largest(SLOWEST)
        self.failed: Largest[RequestRecord] = Largest(SLOWEST)
        self.subjects: Keyed[str, Answers] = Keyed(Answers, others, SUBJECTS)

    def add(self, row: Record) -> None:
        """Adds a row; only requests count."""
        if not isinstance(row, RequestRecord):
            return
        self.outcomes[row.outcome] += 1
        answers = self.subjects[generic(row.subject)]
        answers.requests += 1
        place = (-row.sent_ns, row.session, row.reply)
        if row.outcome != outcomes.OK:
            answers.failures += 1
            self.failed.add(place, row)
        if row.latency_ns is None:
            return
        self.latency.add(row.latency_ns)
        answers.latency.add(row.latency_ns)
        self.over_time.add(row.replied_ns or row.sent_ns, bucket_of(row.latency_ns))
        self.slowest.add((row.latency_ns, *place), row)

    def merge(self, other: Requests) -> None:
        """Adds the requests of another part."""
        self.outcomes.update(other.outcomes)
        self.latency.merge(other.latency)
        self.over_time.merge(other.over_time)
        self.slowest.merge(other.slowest)
        self.failed.merge(other.failed)
        self.subjects.merge(other.subjects)
