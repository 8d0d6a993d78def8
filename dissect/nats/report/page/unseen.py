"""The limits of a report: bytes that were not captured, decrypted or understood, limits that were hit,
and what the report itself leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...capture import CaptureReport
from ...number_formats import copies_text, count_text, size_text, verb_text
from ...schema.anomalies import Anomaly
from .. import answers, ladders
from ..answers import Answers

_LIMITS = (Anomaly.EVICTED, Anomaly.FORGOTTEN, Anomaly.LIMIT)
"""Anomalies caused by a limit of the dissection."""

ROWS = 100
"""The most rows of streams, consumers, talkers, and subjects of requests."""


class Unseen(NamedTuple):
    """Something that is missing, in words, and what to do about it."""

    what: str
    remedy: str = ""


def unseen(found: Answers, capture: CaptureReport | None) -> list[Unseen]:
    """Everything that is known to be missing. `capture` is None if the rows come from tables."""
    items = [*_of_files(capture)] if capture else []
    return [*items, *_of_traffic(found), *_of_limits(found), *_of_report(found, capture)]


def _of_files(capture: CaptureReport) -> Iterator[Unseen]:
    for file in capture.files:
        name = file.capture
        if file.damage:
            yield Unseen(f"{name}: {file.damage}.")
        if file.cut_packets:
            yield Unseen(
                f"{name}: {count_text(file.cut_packets, 'packet')} of {file.packets}"
                f" {verb_text(file.cut_packets, 'was', 'were')} cut off by the snap length.",
                "Capture with -s 0.",
            )
        if file.dropped:
            yield Unseen(
                f"{name}: the capture program missed {count_text(file.dropped, 'packet')}.",
                "Capture with a larger buffer (tcpdump -B) or a narrower filter.",
            )
    for reason in capture.unreadable:
        yield Unseen(f"Not read: {reason}.")
    if capture.passed_over:
        count = len(capture.passed_over)
        verb = verb_text(count, "is not a capture", "are not captures")
        yield Unseen(f"{count_text(count, 'file')} in folders {verb}.")


def _of_traffic(found: Answers) -> Iterator[Unseen]:
    sums, links = found.connections.sums, found.connections
    if sums.missing_bytes:
        yield Unseen(
            f"{size_text(sums.missing_bytes)} were sent, but are not in the captures.",
            "Frames around a gap may be incomplete, and counts too low.",
        )
    if one_way := _count(found, Anomaly.ONE_DIRECTION):
        yield Unseen(
            f"{count_text(one_way, 'session')} {verb_text(one_way, 'lacks', 'lack')} all packets of one"
            " side, which are not counted as missing.",
            "Capture both directions: a mirror port or a tap may have one of them only.",
        )
    not_understood = sums.skipped_bytes - sums.opaque_bytes
    if not_understood > 0:
        yield Unseen(
            f"{size_text(not_understood)} were captured, but not decoded: they come after a gap, or in the"
            " middle of a frame that was joined late."
        )
    if sums.undecrypted:
        yield Unseen(
            f"{count_text(sums.undecrypted, 'TLS session')} could not be decrypted.",
            "Give the secrets with --keylog FILE.",
        )
    hidden = links.protocols["tls"] - (sums.tls - sums.undecrypted)
    if hidden > 0:
        verb = verb_text(hidden, "carries", "carry")
        yield Unseen(f"{count_text(hidden, 'TCP connection')} {verb} TLS that was not decrypted.")
    if other := links.protocols["other"]:
        verb = verb_text(other, "carries", "carry")
        yield Unseen(f"{count_text(other, 'TCP connection')} {verb} no NATS.")
    if sums.midstream:
        yield Unseen(
            f"{count_text(sums.midstream, 'session')} began before the captures: names, logins and"
            " subscriptions may be unknown."
        )
    if still_open := links.ends["open"]:
        verb = verb_text(still_open, "goes", "go")
        yield Unseen(f"{count_text(still_open, 'session')} {verb} on after the captures end.")
    if found.copies:
        yield Unseen(
            f"{copies_text(found.copies)}: before and after address translation, or on both sides of a"
            " proxy.",
            "sessions --where 'copy_of IS NOT NULL' lists them.",
        )
    if sums.unknown:
        yield Unseen(
            f"Of {count_text(sums.unknown, 'session')} the kind is unknown.",
            "--port N=KIND forces one.",
        )


def _count(found: Answers, anomaly: Anomaly) -> int:
    return sum(row.count for row in found.anomalies if row.name == anomaly.value)


def _of_limits(found: Answers) -> Iterator[Unseen]:
    for anomaly in _LIMITS:
        if count := _count(found, anomaly):
            yield Unseen(
                f"A limit of the dissection was hit: {anomaly.value}, {count_text(count, 'time')}.",
                "--max-held-bytes, --max-stream-bytes and --max-flows raise limits.",
            )


def _of_report(found: Answers, capture: CaptureReport | None) -> Iterator[Unseen]:
    sessions = found.connections.sessions
    if sessions.dropped:
        yield Unseen(
            f"Only {answers.SESSIONS} of {sessions.seen} sessions have a row here: those with trouble,"
            " then those with most bytes.",
            "nats-dissect sessions lists all.",
        )
    counts = {
        "streams": (ROWS, len(found.jetstream.streams), "streams"),
        "consumers": (ROWS, len(found.jetstream.consumers), "consumers"),
        "talkers": (ROWS, len(found.connections.talkers), "sessions"),
        "subjects of requests": (ROWS, len(found.requests.subjects), "requests"),
        "endpoints of services": (len(found.services), found.services.seen, "services"),
    }
    for name, (most, count, command) in counts.items():
        if count > most:
            yield Unseen(
                f"Only {most} of {count} {name} have a row here: those with most traffic or trouble.",
                f"nats-dissect {command} lists all.",
            )
    kept = sum(len(sample.rungs) for sample in found.ladders.samples.values())
    if kept < found.ladders.frames:
        yield Unseen(
            f"Ladders show {kept} of {found.ladders.frames} frames: of each session the first and last ones,"
            " and those with errors.",
            "nats-dissect follow ID prints all.",
        )
    if found.ladders.sessions > ladders.SESSIONS:
        yield Unseen(f"Only {ladders.SESSIONS} sessions have a ladder.")
    if found.ladders.paths > ladders.MESSAGES:
        yield Unseen(
            f"Paths are drawn for {ladders.MESSAGES} of {found.ladders.paths} messages: those with"
            " the longest ways.",
            "nats-dissect paths lists all.",
        )
    if found.subjects.merged:
        yield Unseen(
            f"Of more than {answers.SUBJECTS} subjects the rare ones are merged under wildcards.",
            "nats-dissect sql counts them all.",
        )
    if len(found.requests.subjects) > answers.REQUESTED:
        yield Unseen(
            f"Latency is kept separately for {answers.REQUESTED} subjects; others are summed."
        )
    if dropped := found.topology.dropped:
        verb = verb_text(dropped, "is", "are")
        yield Unseen(f"{count_text(dropped, 'session')} {verb} not in the topology.")
    if capture is None:
        yield Unseen("The rows come from tables, which do not say how the captures were read.")
