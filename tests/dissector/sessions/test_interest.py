"""Interest on links between servers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.sessions.interest import Interest
from dissect.nats.sessions.quota import EntryQuota
from dissect.nats.sessions.subscriptions import Subscription
from natsync.protocol import LMsg, LSub, LUnsub, RMsg, RSub, RUnsub, matches


class RecordedInterest(Interest):
    """Keeps what comes out."""

    def __init__(self, entries: int = 1000) -> None:
        self.over: list[Subscription] = []
        self.given_up: list[int] = []
        self.quota = EntryQuota(entries)
        self.entries = entries
        super().__init__(self.quota, self.over.append, self.given_up.append)

    def end(self, ts_ns: int | None = 9) -> list[tuple[bytes, bytes, str | None, int]]:
        self.finish(ts_ns)
        assert len(self.over) == self.opened
        assert self.quota.left == self.entries
        return [(sub.subject, sub.queue, sub.close, sub.delivered) for sub in self.over]


def test_a_new_weight_is_no_new_interest() -> None:
    interest = RecordedInterest()
    for weight in (1, 2, 1):
        interest.open(RSub(b"a", b"A", b"q", weight), weight)
    interest.close(RUnsub(b"a", b"A", b"q"), 5)
    interest.open(RSub(b"a", b"A", b"q", 3), 6)
    assert interest.end() == [(b"a", b"q", "unsub", 0), (b"a", b"q", "session", 0)]
    assert [sub.weight for sub in interest.over] == [1, 3]


def test_accounts_queues_and_origins_are_apart() -> None:
    interest = RecordedInterest()
    interest.open(RSub(b"a", b"A"), 1)
    interest.open(RSub(b"a", b"B"), 1)
    interest.open(RSub(b"a", b"A", b"q", 1), 1)
    interest.open(LSub(b"a", b"A", b"leaf"), 1)
    interest.open(LSub(b"a", b"A", b"other"), 1)
    interest.close(LUnsub(b"a", b"A", b"leaf"), 2)
    interest.finish(None)
    assert [(sub.account, sub.origin, sub.close) for sub in interest.over] == [
        (b"A", b"leaf", "unsub"),
        (b"A", b"", None),
        (b"B", b"", None),
        (b"A", b"", None),
        (b"A", b"other", None),
    ]


def test_older_servers_leave_the_origin_out() -> None:
    interest = RecordedInterest()
    interest.open(LSub(b"a", b"A", b"leaf"), 1)
    interest.open(LSub(b"b", b"A", b"leaf"), 1)
    interest.close(RUnsub(b"a", b"A"), 2)
    interest.close(LUnsub(b"b", b"A"), 3)
    interest.close(RUnsub(b"c", b"A"), 4)
    interest.close(RUnsub(b"c", b"C"), 4)
    assert [sub[2] for sub in interest.end()] == ["unsub", "unsub"]


def test_messages_count_for_all_plain_interest_and_the_queues_they_name() -> None:
    interest = RecordedInterest()
    for subject in (b"a.b", b"a.*", b"a.>", b">", b"*.b", b"a", b"a.b.c", b"b.*"):
        interest.open(RSub(subject, b"A"), 1)
    interest.open(RSub(b"a.*", b"A", b"q", 1), 1)
    interest.open(RSub(b"a.*", b"A", b"r", 1), 1)
    interest.open(RSub(b"a.b", b"B"), 1)
    interest.open(LSub(b"a.b", b"A", b"leaf"), 1)
    interest.deliver(RMsg(b"a.b", b"A", queues=(b"q",)), 7)
    interest.deliver(LMsg(b"none", b"C"), 7)
    interest.finish(9)
    got = {(sub.subject, sub.queue, sub.origin) for sub in interest.over if sub.delivered}
    assert got == {
        (b"a.b", b"", b""),
        (b"a.*", b"", b""),
        (b"a.>", b"", b""),
        (b">", b"", b""),
        (b"*.b", b"", b""),
        (b"a.*", b"q", b""),
        (b"a.b", b"", b"leaf"),
    }
    assert {sub.bytes for sub in interest.over} == {0, 7}


_TOKENS = st.sampled_from([b"a", b"b", b"*"])
_PATTERN = st.builds(
    lambda tokens, more: b".".join([*tokens, *([b">"] if more else [])]),
    st.lists(_TOKENS, min_size=1, max_size=4),
    st.booleans(),
)


@given(
    st.sets(_PATTERN, max_size=8),
    st.lists(st.sampled_from([b"a", b"b"]), min_size=1, max_size=5).map(b".".join),
)
def test_messages_reach_what_the_codec_says_they_match(
    patterns: set[bytes], subject: bytes
) -> None:
    interest = RecordedInterest()
    for pattern in patterns:
        interest.open(RSub(pattern, b"A"), 1)
    interest.deliver(RMsg(subject, b"A"), 1)
    interest.finish(9)
    for sub in interest.over:
        assert sub.delivered == matches(sub.subject, subject)


def test_a_message_to_a_wildcard_counts_once() -> None:
    interest = RecordedInterest()
    interest.open(RSub(b"a.*", b"A"), 1)
    interest.deliver(RMsg(b"a.*", b"A"), 1)
    interest.deliver(RMsg(b".".join([b"a"] * 40), b"A"), 1)
    assert interest.end() == [(b"a.*", b"", "session", 1)]


@pytest.mark.parametrize("entries", [0, 1, 10])
def test_memory_is_bounded_and_what_is_given_up_is_reported(entries: int) -> None:
    interest = RecordedInterest(entries)
    for number in range(100):
        interest.open(RSub(b"a.%d" % number, b"%d" % (number % 7)), number)
    found = interest.end()
    assert len(found) == 100
    assert sum(interest.given_up) == sum(sub[2] is None for sub in found) >= 100 - entries
