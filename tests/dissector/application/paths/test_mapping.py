"""Messages that go on under another subject: only where a server that they reached sends the same bytes."""

from __future__ import annotations

from time import process_time

import pytest

from dissect.nats.application.paths.facts import Facts
from dissect.nats.application.paths.hops import Hop
from dissect.nats.application.paths.mapping import mapped

from tests.dissector.application.paths.grouping import hop

ENDS = {
    "p": {"responder": "NA"},
    "ab": {"originator": "NA", "responder": "NB"},
    "ra": {"responder": "NA"},
    "rb": {"responder": "NB"},
    "rc": {"responder": "NC"},
}
FACTS = Facts(ends=ENDS)
LONG = "more than eight bytes"


def publication(content: str = LONG, reply: str | None = None) -> Hop:
    return hop(1, "p", content, sender="originator", subject="old", reply=reply)


def new(at: int, session: str, content: str = LONG, sender: str = "responder", **more: str) -> Hop:
    return hop(at, session, content, sender=sender, subject=more.pop("subject", "new"), **more)


def found(one: Hop, others: list[Hop], exact: tuple[Hop, ...] = ()) -> list[int]:
    return [match.hop.number for match in mapped(one, exact, others, FACTS)]


def test_what_a_server_sends_on_under_another_subject() -> None:
    route = new(2, "ab", sender="originator")
    assert found(publication(), [route, new(3, "rb"), new(4, "ra")]) == [2, 4, 3]
    assert found(publication(), [new(3, "rb")]) == [], "it was not there"
    assert found(publication(), [new(3, "rc"), new(4, "unknown")]) == []
    assert found(publication(), [new(3, "rb")], (hop(2, "ab", LONG, sender="originator"),)) == [3]


def test_few_bytes_prove_nothing_without_a_reply() -> None:
    assert found(publication("42"), [new(2, "ra", "42")]) == []
    asked = publication("42", "_INBOX.1")
    assert found(asked, [new(2, "ra", "42", reply="_INBOX.1")]) == [2]
    assert found(asked, [new(2, "ra", "42", reply="_R_.abc.def")]) == [2]
    assert found(asked, [new(2, "ra", "42", reply="_INBOX.2")]) == []
    assert found(publication(), [new(2, "ra", reply="_INBOX.2")]) == []


def test_what_somebody_publishes_again_is_not_mapped() -> None:
    there = hop(2, "ab", LONG, sender="originator")
    back = new(5, "ab")
    assert found(publication(), [back, new(6, "ra")], (there,)) == []
    assert found(publication(), [new(3, "ra"), new(4, "ra")]) == [], "twice to one reader"


@pytest.mark.parametrize("tap", ["c", "d"])
def test_on_one_clock_nothing_comes_before_its_publication(tap: str) -> None:
    assert found(publication(), [new(0, "ra", tap=tap)]) == ([] if tap == "c" else [0])


def test_a_message_to_many_readers_takes_linear_time() -> None:
    def taken(count: int) -> float:
        readers = [new(2, "ra")._replace(number=number, sid=str(number)) for number in range(count)]
        one = publication()
        start = process_time()
        assert len(list(mapped(one, (), readers, FACTS))) == count
        return process_time() - start

    # Those that were found were looked for one by one: 16 times as many took 256 times as long.
    assert min(taken(8000) for _ in range(2)) < 100 * min(taken(500) for _ in range(3))
