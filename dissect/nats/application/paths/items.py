"""The items that the stages of `paths` exchange, with hops, publications and places, by stage:

SESSIONS   the facts about a session: `facts`
ASKS       by session and reply subject: publications, and PubAcks that came back there
PLACES     by stream and sequence: publications that are stored there, and deliveries from there
CONTENTS   by content: publications, and frames that may carry them
LATENCIES  between captures: `evidence`
ANCHORS    by publisher and line: `evidence`
EQUALS     by content, subject and reply, of equal publications: the same as CONTENTS
SWAPS      by the reply that replaced that of a request: the reply of the request, and answers to it
ANSWERS    by content and subject: answers, and frames that may carry them under that subject
MESSAGES   by publication: itself, and its hops
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple, cast

from ...schema.declaration import Group, LayerItem
from .hops import Hop

SESSIONS, ASKS, PLACES, CONTENTS, LATENCIES, ANCHORS, EQUALS, SWAPS, ANSWERS, MESSAGES = range(10)

# Items of one key that are held in memory together, about 700 bytes each. If a key has more, nothing is
# matched, and the rows of its publications have the anomaly `forgotten`.
GROUP_ITEMS = 1 << 18
# Times may exceed 64 bits, because pcapng has 64 bits for seconds.
_LATEST_NS = (1 << 63) - 1

Place = tuple[str, int]


class Match(NamedTuple):
    """A hop of a publication, and what proves it: `unique`, `ordered`, `time` or `mapped`. If it is `group`,
    the hop is the first of `passed` frames on a line, each of which carries one of equal publications.
    """

    hop: Hop
    matched_by: str
    passed: int = 0


def hop_item(stage: int, key: bytes, hop: Hop) -> LayerItem:
    """An item with a hop, which `hop_in` returns."""
    ts_ns, session, number, *_ = hop
    ts_ns = ts_ns if ts_ns < _LATEST_NS else _LATEST_NS
    return LayerItem(stage, key, ts_ns, session, number, tuple(hop))


def hop_in(item: LayerItem) -> Hop:
    """The hop in an item of any stage but MESSAGES."""
    return Hop._make(item.body)


def key_of(*parts: str | int) -> bytes:
    """A key made of several parts, each after its length."""
    texts = [str(part) for part in parts]
    return "".join([f"{len(text)}:{text}" for text in texts]).encode("utf-8", "surrogatepass")


def equal_key(hop: Hop, subject: str, reply: str | None, is_stored: bool) -> bytes:
    """The key in EQUALS, which equal messages and their hops share."""
    return hop.content + key_of(subject, reply or "", reply is not None, is_stored)


def message_key(publication: Hop) -> bytes:
    """The key in MESSAGES. Keys are in order of the publications' times."""
    at = min(publication.ts_ns, _LATEST_NS) + _LATEST_NS + 1
    return at.to_bytes(8, "big") + b"%s:%d" % (publication.session.encode(), publication.number)


def publication_item(publication: Hop, copies: int | None) -> LayerItem:
    """A publication for MESSAGES. `copies` is None if it is one of too many equal ones."""
    return _message_item(message_key(publication), publication, "", copies)


def match_items(publication: Hop, matches: Iterable[Match]) -> Iterator[LayerItem]:
    """The hops of a publication for MESSAGES."""
    key = message_key(publication)
    for match in matches:
        yield _message_item(key, match.hop, match.matched_by, match.passed)


def _message_item(key: bytes, hop: Hop, matched_by: str, copies: int | None) -> LayerItem:
    ts_ns, session, number, *_ = hop
    body = matched_by, copies, tuple(hop)
    ts_ns = ts_ns if ts_ns < _LATEST_NS else _LATEST_NS
    return LayerItem(MESSAGES, key, ts_ns, session, number, body)


def message_in(item: LayerItem) -> tuple[Match, int | None]:
    """The match in an item of MESSAGES, and `copies`. A publication has an empty `matched_by`."""
    matched_by, copies, hop = cast("tuple[str, int | None, tuple[object, ...]]", item.body)
    passed = (copies or 0) if matched_by else 0
    return Match(Hop._make(hop), matched_by, passed), copies


def alone(group: Group) -> tuple[LayerItem | None, Group]:
    """The item of a group that has only one, otherwise None; and the group. Most groups have only one if few
    connections are captured."""
    first = next(group)
    second = next(group, None)
    return (first, group) if second is None else (None, chain((first, second), group))


def first_items(group: Group) -> tuple[list[LayerItem], bool]:
    """The first items of a group, and whether these are all of them."""
    items = [*islice(group, GROUP_ITEMS)]
    following = next(group, None)
    return (items, True) if following is None else ([*items, following], False)


def is_ack(item: LayerItem) -> bool:
    """Whether an item of ASKS is a PubAck."""
    return len(item.body) == 2


def ack_item(hop: Hop, place: Place) -> LayerItem:
    """An item for ASKS with a PubAck, which came in the frame `hop`."""
    item = hop_item(ASKS, key_of(hop.session, hop.subject), hop)
    item.body = place
    return item


def hops_in(items: list[LayerItem]) -> Iterator[Hop]:
    """The hops in items."""
    return (Hop._make(item.body) for item in items)
