"""The summary: the problems, the worst first, and the figures that describe the traffic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ... import outcomes
from ...capture import CaptureReport
from ...number_formats import count_text, duration_text, size_text
from ...output.text.lines import undecoded_text
from ..answers import Answers

BAD, WARNING, NOTE = 0, 1, 2
LEVELS = {BAD: "error", WARNING: "warning", NOTE: "note"}


class Problem(NamedTuple):
    """A problem: its level, a sentence, and the section of the page with the details."""

    level: int
    text: str
    section: str

    @property
    def label(self) -> str:
        """The level as a word."""
        return LEVELS[self.level]


class Fact(NamedTuple):
    """A figure that describes the traffic."""

    name: str
    value: str


def problems(found: Answers, capture: CaptureReport | None) -> list[Problem]:
    """All problems that the tables and the capture report show, the worst first."""
    every = [
        *_of_connections(found),
        *_of_requests(found),
        *_of_jetstream(found),
        *_of_capture(found, capture),
    ]
    return sorted(every, key=lambda item: item.level)


def _of_connections(found: Answers) -> Iterator[Problem]:
    links = found.connections
    if slow := links.slow.seen:
        yield Problem(BAD, f"{count_text(slow, 'slow consumer')}: too slow for what came.", "slow")
    for error, count in sorted(links.errors.items(), key=lambda item: (-item[1], item[0]))[:8]:
        times = f"{count} times" if count > 1 else "once"
        yield Problem(BAD, f"Servers said {times}: {error}", "sessions")
    if links.ends["error"]:
        sessions = count_text(links.ends["error"], "session")
        yield Problem(BAD, f"{sessions} ended with an error.", "sessions")
    if links.ends["rst"]:
        yield Problem(
            WARNING, f"{count_text(links.ends['rst'], 'session')} were reset.", "sessions"
        )
    if pings := links.sums.unanswered_pings:
        yield Problem(WARNING, f"{count_text(pings, 'PING')} had no PONG.", "sessions")
    if links.sums.lame_duck:
        sessions = count_text(links.sums.lame_duck, "session")
        yield Problem(WARNING, f"The server announced its shutdown to {sessions}.", "sessions")
    if links.stopped.seen:
        connections = count_text(links.stopped.seen, "connection")
        longest = links.stopped[0]
        stopped = max(longest.zero_window_ns_originator, longest.zero_window_ns_responder)
        text = (
            f"On {connections} a receiver stopped its sender, for up to {duration_text(stopped)}."
        )
        yield Problem(WARNING, text, "slow")


def _of_requests(found: Answers) -> Iterator[Problem]:
    counts, total = found.requests.outcomes, found.requests.outcomes.total()
    for outcome, level, what in (
        (outcomes.REFUSED, BAD, "were refused: no permission to publish"),
        (outcomes.NO_RESPONDERS, BAD, "had no responders"),
        (outcomes.SERVICE_ERROR, BAD, "were answered with an error by a service"),
        (outcomes.API_ERROR, WARNING, "were answered with an error by JetStream"),
        (outcomes.NO_REPLY, WARNING, "had no reply"),
    ):
        if count := counts[outcome]:
            yield Problem(level, f"{count} of {count_text(total, 'request')} {what}.", "requests")


def _of_jetstream(found: Answers) -> Iterator[Problem]:
    streams, consumers = found.jetstream.streams, found.jetstream.consumers
    redelivered = sum(item.redeliveries for item in consumers)
    if redelivered:
        text = f"JetStream delivered {count_text(redelivered, 'message')} again."
        yield Problem(WARNING, text, "jetstream")
    refused = sum(item.publish_errors for item in streams)
    if refused:
        text = f"Streams refused {count_text(refused, 'publication')}."
        yield Problem(BAD, text, "jetstream")
    for verb in ("deleted", "purged"):
        count = sum(getattr(item, verb) for item in streams)
        noun = "stream" if verb == "deleted" else "message"
        if count:
            yield Problem(WARNING, f"{count_text(count, noun)} {verb}.", "jetstream")


def _of_capture(found: Answers, capture: CaptureReport | None) -> Iterator[Problem]:
    if capture and (capture.damaged or capture.unreadable):
        count = count_text(len(capture.damaged) + len(capture.unreadable), "file")
        yield Problem(BAD, f"{count} could not be read to the end.", "unseen")
    if capture and (dropped := sum(file.dropped for file in capture.files)):
        text = f"The capture program missed {count_text(dropped, 'packet')}."
        yield Problem(WARNING, text, "unseen")
    if missing := found.connections.sums.missing_bytes:
        yield Problem(WARNING, f"{size_text(missing)} are missing from the captures.", "unseen")
    if found.connections.sums.undecrypted:
        count = count_text(found.connections.sums.undecrypted, "TLS session")
        yield Problem(NOTE, f"{count} could not be decrypted.", "unseen")
    if not found.totals.frames:
        undecoded = undecoded_text(capture) if capture else ""
        text = f"There are no NATS frames{'; ' * bool(undecoded)}{undecoded}."
        yield Problem(NOTE, text, "unseen")


def facts(found: Answers) -> list[Fact]:
    """The figures of the traffic as a whole."""
    links, latency = found.connections, found.requests.latency
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(links.kinds.items()))
    rows = [
        Fact("sessions", f"{links.kinds.total()} ({kinds})" if kinds else "0"),
        Fact("servers", str(len(found.topology.servers))),
        Fact("frames", str(found.totals.frames)),
        Fact("messages", f"{found.totals.messages} ({size_text(found.totals.bytes)})"),
        Fact("requests", str(found.requests.outcomes.total())),
    ]
    if latency.count:
        value = f"median {duration_text(latency.median_ns)}, 99 % {duration_text(latency.p99_ns)}"
        rows.append(Fact("latency", value))
    if len(found.jetstream.streams):
        value = (
            f"{len(found.jetstream.streams)} streams, {len(found.jetstream.consumers)} consumers"
        )
        rows.append(Fact("JetStream", value))
    if found.totals.sessions:
        rows.append(Fact("time", duration_text(found.totals.last_ns - found.totals.first_ns)))
    return rows
