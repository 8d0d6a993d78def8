"""Subjects: what may stand where, and `matches` against a slow and obvious definition of a match."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsync.protocol import (
    ProtocolError,
    are_plain,
    check_publish,
    check_queue,
    check_subscribe,
    is_literal,
    matches,
)

NO_TOKENS = [b"", b" ", b"a b", b"a\tb", b"a\r", b"\n"]
subjects = st.lists(
    st.sampled_from([b"a", b"b", b"*", b">", b"", b"a*", b">b", b"\xff\x00"]),
    min_size=1,
    max_size=5,
).map(b".".join)


def obviously_matches(pattern: list[bytes], subject: list[bytes]) -> bool:
    """The definition, token by token: `*` is one token, a last `>` is one or more, none may be empty."""
    if not pattern or not subject:
        return not pattern and not subject
    if b"" in subject:
        return False
    if pattern == [b">"]:
        return True
    return pattern[0] in (b"*", subject[0]) and obviously_matches(pattern[1:], subject[1:])


@settings(deadline=None, max_examples=500)
@given(subjects, subjects)
def test_matches_is_the_obvious_definition(pattern: bytes, subject: bytes) -> None:
    assert matches(pattern, subject) == obviously_matches(pattern.split(b"."), subject.split(b"."))


@pytest.mark.parametrize(
    "pattern, subject, match",
    [
        (b"foo", b"foo", True),
        (b"foo", b"Foo", False),
        (b"foo", b"foo.bar", False),
        (b"foo.*", b"foo.bar", True),
        (b"foo.*", b"foo", False),
        (b"foo.*", b"foo.bar.baz", False),
        (b"*.*", b"foo.bar", True),
        (b"foo.>", b"foo", False),
        (b"foo.>", b"foo.bar.baz", True),
        (b">", b"foo", True),
        (b"foo*", b"foobar", False),
        (b"foo*bar", b"foo*bar", True),
        (b"foo>", b"foo>", True),
        (b"foo.*", b"foo.*", True),
        (b"foo.*", b"foo.>", True),
        (b"foo", b"*", False),
        (b">", b"a..b", False),
        (b"a.*.b", b"a..b", False),
        (b"a..b", b"a..b", False),
        (b">", b"", False),
        (b">", b".a", False),
        (b">", b"a.", False),
    ],
)
def test_a_pattern_matches_these_subjects(pattern: bytes, subject: bytes, match: bool) -> None:
    assert matches(pattern, subject) is match


@pytest.mark.parametrize("check", [check_publish, check_subscribe, check_queue])
@pytest.mark.parametrize("text", NO_TOKENS)
def test_what_is_no_token_stands_nowhere(check: Callable[[bytes], None], text: bytes) -> None:
    with pytest.raises(ProtocolError):
        check(text)


@pytest.mark.parametrize("text", [b"a", b"a.b", b"a*", b">a", b"a.b*c", b"\x00\xff", b"$SYS.x"])
def test_subjects_to_publish_and_to_subscribe_to(text: bytes) -> None:
    check_publish(text)
    check_subscribe(text)
    check_queue(text)


@pytest.mark.parametrize("text", [b"*", b">", b"a.*", b"*.a", b"a.*.b", b"a.>"])
def test_a_wildcard_is_for_subscriptions_only(text: bytes) -> None:
    check_subscribe(text)
    with pytest.raises(ProtocolError, match="^invalid subject '.*': contains a wildcard$"):
        check_publish(text)


@pytest.mark.parametrize("text", [b".", b".a", b"a.", b"a..b", b">.a.", b"*..b"])
@pytest.mark.parametrize("check", [check_publish, check_subscribe])
def test_an_empty_token_reaches_nobody(check: Callable[[bytes], None], text: bytes) -> None:
    with pytest.raises(ProtocolError, match="^invalid subject '.*': contains an empty token$"):
        check(text)
    check_queue(text)


@pytest.mark.parametrize("text", [b">.a", b"a.>.b"])
def test_a_full_wildcard_is_the_last_token(text: bytes) -> None:
    with pytest.raises(ProtocolError, match="^invalid subject '.*': has > before its last token$"):
        check_subscribe(text)


@settings(deadline=None, max_examples=500)
@given(subjects | st.binary())
def test_what_may_be_published_to_is_the_obvious(subject: bytes) -> None:
    good = is_literal(subject) and not any(byte in subject for byte in b" \t\r\n")
    try:
        check_publish(subject)
    except ProtocolError:
        assert not good
    else:
        assert good


@settings(deadline=None, max_examples=500)
@given(
    st.text(st.sampled_from("ab.*> \t\r\n\0\x7fä\u00a0\u2028\udcff"), max_size=8)
    | st.text(st.characters(exclude_categories=()))
)
def test_a_plain_subject_is_valid(subject: str) -> None:
    if are_plain(f".{subject}."):
        check_publish(subject.encode())
        assert are_plain(f".a.{subject}.") and are_plain(f".{subject}.a.")
    else:
        assert not are_plain(f".a.{subject}.") and not are_plain(f".{subject}.a.")


@pytest.mark.parametrize("subject", ["a", "a.b", "$JS.API.INFO", "_INBOX.x-1.y_2", "a.:/@#=+", "ä"])
def test_usual_subjects_are_plain(subject: str) -> None:
    assert are_plain(f".{subject}.")


def test_an_error_shows_the_start_of_a_subject_and_says_what_it_is() -> None:
    with pytest.raises(ProtocolError, match="^invalid queue 'a b': contains whitespace$"):
        check_queue(b"a b")
    with pytest.raises(ProtocolError, match="^invalid reply '': is empty$"):
        check_publish(b"", "reply")
    with pytest.raises(ProtocolError) as caught:
        check_subscribe(b"x" * 100 + b" ")
    assert str(caught.value) == f"invalid subject '{'x' * 64}...': contains whitespace"


@pytest.mark.parametrize(
    "text, literal",
    [(b"a", True), (b"a.b*", True), (b"*", False), (b"a.>", False), (b"a..b", False), (b"", False)],
)
def test_a_subject_without_wildcards_is_literal(text: bytes, literal: bool) -> None:
    assert is_literal(text) is literal
