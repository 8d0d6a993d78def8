"""Answers through a service import, whose contents alone prove nothing: few bytes, or equal ones.

A server that sends a request on to another account replaces its reply by one of its own, `_R_.x`, and an
answer that comes there goes to the reply of the request. So a request that was seen before and after proves
the way of its answers: frames with the content of an answer to `_R_.x`, under the reply of that request, from
a server that the answer reached. If several answers to one request are equal, nothing tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from ...schema.declaration import Group, LayerItem
from .facts import Facts
from .hops import Hop, Line, is_empty
from .items import ANSWERS, SWAPS, Match, first_items, hop_in, hop_item, key_of, match_items
from .mapping import is_service_reply, sent_on


def swap_items(request: Hop, matches: Iterable[Match]) -> Iterator[LayerItem]:
    """The replies that replaced that of a request, for SWAPS."""
    for hop, *_ in matches:
        if request.reply and is_service_reply(hop.reply) and hop.reply != request.reply:
            item = hop_item(SWAPS, key_of(hop.reply or ""), hop)
            item.body = (request.reply,)
            yield item


def answer_items(
    publications: Sequence[Hop],
    others: Iterable[Hop],
    matches: dict[Hop, list[Match]],
    facts: Facts,
) -> Iterator[LayerItem]:
    """The publications with one content that are answers through an import, for SWAPS, and the frames that
    may carry them, for ANSWERS: those of `others` that no publication owns."""
    answers = [one for one in publications if is_service_reply(one.subject)]
    if not answers:
        return
    owned = {match.hop for found in matches.values() for match in found}
    for one in answers:
        reached = facts.entries(one, (match.hop for match in matches.get(one, ())))
        item = hop_item(SWAPS, key_of(one.subject), one)
        item.body = tuple(one), tuple(reached)
        yield item
    yield from _carriers(hop for hop in others if hop not in owned)


def empty_items(hops: Iterable[Hop]) -> Iterator[LayerItem]:
    """The frames that may carry empty answers, for ANSWERS. Their content is their subject, which no
    publication has."""
    yield from _carriers(filter(is_empty, hops))


def _carriers(hops: Iterable[Hop]) -> Iterator[LayerItem]:
    for hop in hops:
        yield hop_item(ANSWERS, _key(hop, hop.subject), hop)


def match_swaps(groups: Iterator[Group]) -> Iterator[LayerItem]:
    """SWAPS: finds under which subject an answer goes on, if one request alone has that reply."""
    for group in groups:
        items, is_all = first_items(group)
        replies = {cast(str, item.body[0]) for item in items if len(item.body) == 1}
        if is_all and len(replies) == 1:
            (subject,) = replies
            for item in items:
                if len(item.body) == 2:
                    one = _answer_in(item)
                    found = hop_item(ANSWERS, _key(one, subject), one)
                    found.body = item.body
                    yield found


def match_answers(groups: Iterator[Group], facts: Facts) -> Iterator[LayerItem]:
    """ANSWERS: yields the hops of answers under the replies of their requests."""
    for group in groups:
        items, is_all = first_items(group)
        answers = [item for item in items if len(item.body) == 2]
        if len(answers) != 1 or not is_all:
            continue
        (answer,) = answers
        lines: dict[Line, list[Hop]] = {}
        for hop in (hop_in(item) for item in items if item is not answer):
            lines.setdefault(hop.line, []).append(hop)
        if any(len(line) > 1 for line in lines.values()):
            continue  # somebody else answers with the same
        one, reached = _answer_in(answer), cast("tuple[str, ...]", answer.body[1])
        hops = [hop for (hop,) in lines.values() if hop.tap != one.tap or hop.ts_ns >= one.ts_ns]
        yield from match_items(
            one, (Match(hop, "mapped") for hop in sent_on(hops, {*reached}, facts))
        )


def _answer_in(item: LayerItem) -> Hop:
    return Hop._make(cast("tuple[object, ...]", item.body[0]))


def _key(hop: Hop, subject: str) -> bytes:
    content = b"" if is_empty(hop) else hop.content
    return content + key_of(subject, hop.reply or "", hop.reply is not None)
