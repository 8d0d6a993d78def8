"""The summary: the problems, the worst first, and the figures that describe the traffic."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from ... import outcomes
from ...audit.sigma.levels import Harm, Level
from ...capture import CaptureReport
from ...number_formats import count_text, duration_text, size_text, verb_text
from ...output.text.lines import undecoded_text
from ..answers import Answers
from ..findings import Findings
from .escaping import cut

BAD, WARNING, NOTE = 0, 1, 2
LEVELS = {BAD: "error", WARNING: "warning", NOTE: "note"}
_NAMES = 3  # that a problem shows
_NAME_LENGTH = 60


class Problem(NamedTuple):
    """A problem: its level, a sentence, and the section of the page with the details. Within a level, the
    worst harm comes first, as in an audit; what the tables count are symptoms."""

    level: int
    text: str
    section: str
    harm: Harm = Harm.symptom

    @property
    def label(self) -> str:
        """The level as a word."""
        return LEVELS[self.level]


class Fact(NamedTuple):
    """A figure that describes the traffic."""

    name: str
    value: str


def problems(found: Answers, findings: Findings, capture: CaptureReport | None) -> list[Problem]:
    """All problems that the findings, the tables and the capture report show, the worst first."""
    every = [
        *_of_findings(findings),
        *_of_connections(found),
        *_of_requests(found),
        *_of_jetstream(found),
        *_of_capture(found, capture),
    ]
    return sorted(every, key=lambda item: (item.level, -item.harm))


def _of_findings(findings: Findings) -> Iterator[Problem]:
    """Rules of level medium or worse that found something, and those of level low that found what is broken;
    this counts for a level more."""
    for _, group in groupby(findings.worst, key=lambda item: item.rule):
        items = list(group)
        harm = Harm[items[0].harm]
        severity = items[0].severity + (harm >= Harm.outage)
        if severity >= Level.medium:
            level = BAD if severity >= Level.high else WARNING
            subjects = [item.subject or "" for item in items]
            text = f"{items[0].title}{_names(subjects, len(items))}."
            yield Problem(level, text, "findings", harm)
    shown = sum(item.severity >= Level.medium for item in findings.worst)
    if (
        left_out := sum(findings.levels[each.name] for each in Level if each >= Level.medium)
        - shown
    ):
        text = f"The audit has {count_text(left_out, 'finding')} more, of level medium or worse."
        yield Problem(WARNING, text, "findings", Harm.practice)


def _names(rows: list[str], count: int) -> str:
    """The first names of `count` rows, in parentheses; `rows` has the names of those that are known."""
    names = list(dict.fromkeys(filter(None, rows)))
    if not names:
        return ""
    more = [", ..."] if len(names) > _NAMES or len(rows) < count else []
    return f" ({', '.join(cut(name, _NAME_LENGTH) for name in names[:_NAMES])}{''.join(more)})"


def _of_connections(found: Answers) -> Iterator[Problem]:
    links = found.connections
    if slow := links.slow.seen:
        names = _names([row.client_name or row.originator for row in links.slow], slow)
        text = f"{count_text(slow, 'client')} {verb_text(slow, 'was', 'were')} too slow for what came{names}."
        yield Problem(BAD, text, "slow")
    for error, count in sorted(links.errors.items(), key=lambda item: (-item[1], item[0]))[:8]:
        times = f"{count} times" if count > 1 else "once"
        yield Problem(BAD, f"Servers said {times}: {error}", "sessions")
    for end, level, what in (("error", BAD, "ended with an error"), ("rst", WARNING, "reset")):
        if count := links.ends[end]:
            names = _names([row.who or "" for row in links.sessions if row.end == end], count)
            verb = f"{verb_text(count, 'was', 'were')} {what}" if end == "rst" else what
            yield Problem(level, f"{count_text(count, 'session')} {verb}{names}.", "sessions")
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
        (outcomes.REFUSED, BAD, "got no permission to publish"),
        (outcomes.NO_RESPONDERS, BAD, "had no responders"),
        (outcomes.SERVICE_ERROR, BAD, "got an error from a service"),
        (outcomes.API_ERROR, WARNING, "got an error from JetStream"),
        (outcomes.NO_REPLY, WARNING, "had no reply"),
    ):
        if count := counts[outcome]:
            failed = [row.subject for row in found.requests.failed if row.outcome == outcome]
            text = f"{count} of {count_text(total, 'request')} {what}{_names(failed, count)}."
            yield Problem(level, text, "requests")


def _of_jetstream(found: Answers) -> Iterator[Problem]:
    streams, consumers = found.jetstream.streams, found.jetstream.consumers
    redelivered = sum(item.redeliveries for item in consumers)
    if redelivered:
        names = [item.consumer for item in consumers if item.redeliveries]
        text = f"JetStream delivered {count_text(redelivered, 'message')} again{_names(names, 0)}."
        yield Problem(WARNING, text, "jetstream")
    refused = sum(item.publish_errors for item in streams)
    if refused:
        names = [item.stream for item in streams if item.publish_errors]
        text = f"Streams refused {count_text(refused, 'publication')}{_names(names, 0)}."
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
            f"{count_text(len(found.jetstream.streams), 'stream')},"
            f" {count_text(len(found.jetstream.consumers), 'consumer')}"
        )
        rows.append(Fact("JetStream", value))
    if found.totals.sessions:
        rows.append(Fact("time", duration_text(found.totals.last_ns - found.totals.first_ns)))
    return rows
