"""The texts of -ERR."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsync.protocol import Kind, Violation, closes, read_violation

from tests.support.error_texts import OPEN_TO


@pytest.mark.parametrize(("text", "open_to"), OPEN_TO.items())
def test_which_connections_stay_open(text: bytes, open_to: set[Kind]) -> None:
    assert {kind for kind in Kind if not closes(text, kind)} == open_to
    assert closes(text, None) == closes(text, Kind.CLIENT)


@pytest.mark.parametrize(
    ("text", "violation"),
    [
        (b'Publish to "a.b"', Violation("publish", b"a.b")),
        (b'Subscription to "a" using queue "q"', Violation("subscription", b"a", b"q")),
        (b'Subscription to "a" (sid "7")', Violation("subscription", b"a", b"", b"7")),
        (
            b'Subscription to "a" using queue "q" (sid "7")',
            Violation("subscription", b"a", b"q", b"7"),
        ),
        (b'Subscription to "a.b", too many tokens', Violation("subscription", b"a.b")),
        (b'Publish with Reply of "_R_.x"', Violation("publish", b"_R_.x", of_reply=True)),
        (rb'Publish to "n\"o\\\t\x41\u00e4\xff"', Violation("publish", b'n"o\\\tA\xc3\xa4\xff')),
        (rb'Publish to "\U0001f600"', Violation("publish", "\U0001f600".encode())),
        (rb'Publish to "\U7fffffff"', Violation("publish", rb"\U7fffffff")),
        (b"of a new kind", None),
    ],
)
def test_what_a_violation_is_about(text: bytes, violation: Violation | None) -> None:
    for verb in (b"Permissions Violation ", b"permissions violation "):
        found = read_violation(verb + (b"for " if violation else b"") + text)
        assert found == violation


@given(st.binary(max_size=60))
def test_any_text_is_understood(text: bytes) -> None:
    for whole in (text, b'Permissions Violation for Publish to "%b"' % text):
        read_violation(whole)
        closes(whole, Kind.ROUTE)
        closes(whole, Kind.LEAFNODE)
