"""Subject mappings, stream and service imports: hops of a message under another subject or reply.

The content proves such a hop if only one publication in all captures has this payload and these headers, and
a server that the message reached sends them on: with the same reply, or with `_R_.`, which replaces the reply
after a service import; or without a reply, if the content is more than a few bytes (`answers` proves shorter
answers through a service import). A server may also get the
same content from somebody who publishes it again, outside the capture. So nothing is proven for a subject
under which the content also comes to a server that already had the message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .facts import Facts
from .hops import Hop
from .items import Match

_SERVICE_REPLY = "_R_."
# Shorter contents, such as counters, may be equal by chance.
_ENOUGH = 8


def mapped(
    publication: Hop, exact: Sequence[Hop], others: Sequence[Hop], facts: Facts
) -> Iterator[Match]:
    """The hops under other subjects or replies. `exact` are the hops that look like the publication."""
    reached = {*facts.entries(publication, exact)}
    by_subject: dict[str, list[Hop]] = {}
    for hop in others:
        if _is_alike(publication, hop):
            by_subject.setdefault(hop.subject, []).append(hop)
    for hops in by_subject.values():
        if len({hop.line for hop in hops}) < len(hops):
            continue  # twice on a line: the content was published again
        entered = [server for hop in hops if (server := facts.receiver(hop))]
        if reached.isdisjoint(entered) and len(set(entered)) == len(entered):
            for hop in sent_on(hops, reached, facts):
                yield Match(hop, "mapped")


def is_service_reply(subject: str | None) -> bool:
    """Whether a server made this reply subject for a request that it sent to another account."""
    return subject is not None and subject.startswith(_SERVICE_REPLY)


def _is_alike(publication: Hop, hop: Hop) -> bool:
    """Whether a hop may be the publication after a mapping or an import."""
    if hop.tap == publication.tap and hop.ts_ns < publication.ts_ns:
        return False
    if publication.reply and hop.reply:
        return hop.reply == publication.reply or is_service_reply(hop.reply)
    return hop.reply == publication.reply and publication.size >= _ENOUGH


def sent_on(hops: Sequence[Hop], reached: set[str], facts: Facts) -> Iterator[Hop]:
    """The hops from servers that the message reached, including those that it reached by one of `hops`."""
    known, waiting = set(reached), list(hops)
    while True:
        sent = [hop for hop in waiting if (facts.sender(hop) or "") in known]
        if not sent:
            return
        yield from sent
        waiting = [hop for hop in waiting if (facts.sender(hop) or "") not in known]
        known.update(server for hop in sent if (server := facts.receiver(hop)))
