"""Regular expressions that mean the same to RE2 and Java."""

from __future__ import annotations

import re

import pytest

from dissect.nats.audit.sigma.patterns import portable_pattern

from tests.support.requirements import missing

try:
    import duckdb
except ImportError as lack:
    missing("duckdb", str(lack))


def finds(pattern: str, text: str, flags: str = "") -> bool:
    made = portable_pattern(pattern, set(flags))
    query = "SELECT regexp_matches(?, ?)"
    return bool(duckdb.connect().execute(query, [text, made]).fetchall()[0][0])


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^\$JS\.API\.(STREAM|CONSUMER)\.DELETE\.", "$JS.API.STREAM.DELETE.X"),
        (r"[]a-z^&&\d-]{2,5}?", "]-"),
        (r"a{b}", "a{b}"),
        (r"(?P<name>x)+", "xx"),
        (r"\x41\x{e9}", "Aé"),
        (r"[^\n]\t\v", "a\t\x0b"),
        (r"\bword\B", "a wordy"),
    ],
)
def test_a_pattern_keeps_its_meaning(pattern: str, text: str) -> None:
    assert finds(pattern, text)


def test_case_is_that_of_ascii() -> None:
    assert finds("(?i)pass[a-f]", "PASSE")
    assert finds("[^a]x", "bX", "i")
    assert not finds("[^a]x", "AX", "i")
    assert not finds("(?i)k", "\u212a")  # the sign of kelvin


def test_a_dot_stops_at_a_newline_and_a_dollar_is_the_end() -> None:
    assert not finds("a.b", "a\nb")
    assert finds("a.b", "a\nb", "s")
    assert finds("a.b", "a\rb")
    assert not finds("a$", "a\n")


def test_repeats_beside_each_other_are_not_multiplied() -> None:
    assert finds("^(a{100}){10}(b{100}){10}$", "a" * 1000 + "b" * 1000)


def test_digits_of_a_repeat_are_ascii() -> None:
    assert portable_pattern("a{\u0663}", set()) == "a\\{\u0663\\}"


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)", "look-ahead"),
        ("(?<!a)b", "look-behind"),
        ("(?>a)", "an atomic group"),
        (r"(a)\1", r"\1"),
        ("a++", "possessive"),
        (r"\p{L}", r"\p"),
        ("[[:alpha:]]", "POSIX"),
        (r"[\D]", r"\D in a class"),
        ("(?m)^a", "'m'"),
        ("a(?i)b", "flags inside"),
        ("a{1,2000}", "1000 repeats"),
        ("(b|(a{40})?){26}", "1000 repeats"),
        ("a{3,2}", "{3,2} of a regular expression is empty"),
        (r"a\Z", r"\Z in a regular expression"),
        ("*a", "repeats nothing"),
        ("a**", "repeats nothing"),
        ("a|+", "repeats nothing"),
        ("[z-a]", "z-a"),
        ("(a", "not closed"),
        ("a)", "not opened"),
        ("[a", "not closed"),
        (r"\x00", "not a character"),
    ],
)
def test_what_they_do_not_share_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        portable_pattern(pattern, set())
