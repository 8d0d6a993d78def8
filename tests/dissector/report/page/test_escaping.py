"""Text from the wire, on its way into HTML and into JSON inside HTML."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from dissect.nats.report.page.escaping import (
    breakable,
    csp_hash,
    cut,
    inert,
    inert_value,
    json_in_html,
)


@pytest.mark.parametrize(
    "text, harmless",
    [
        ("orders.\u202egpj.exe", "orders.\\u202egpj.exe"),
        ("a\x1b[31m\n", "a\\x1b[31m\\x0a"),
        ("half \ud83d a pair", "half \\ud83d a pair"),
        ("\u00e9t\u00e9 \u65e5\u672c", "\u00e9t\u00e9 \u65e5\u672c"),
    ],
)
def test_control_characters_are_written_out(text: str, harmless: str) -> None:
    assert inert(text) == harmless
    assert inert_value(text) == harmless and inert_value(7) == 7


def test_what_is_markup_already_stays() -> None:
    assert inert(Markup("<b>\n</b>")) == "<b>\n</b>"


@given(st.text(alphabet=st.characters() | st.sampled_from("</script><!--&\u2028")))
def test_json_does_not_end_its_element(text: str) -> None:
    written = json_in_html({"text": text})
    assert not set("<>&") & set(written) and written.isascii()
    assert json.loads(written) == {"text": text}


def test_long_texts_are_cut() -> None:
    assert cut("abcdef", 6) == "abcdef" and cut("abcdefg", 6) == "abcde…"


def test_a_hash_as_content_security_policies_write_it() -> None:
    # https://www.w3.org/TR/CSP3/#framework-directive-source-list, of the empty text
    assert csp_hash("") == "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"


@pytest.mark.parametrize(
    "text, lines",
    [
        ("127.0.0.1:4222", "127.0.0.1:4222"),
        ("[2001:db8::1]:4222", "[2001:|db8::1]:4222"),
        ("orders.new", "orders.|new"),
        ('{"a":"<b>"}', "{&#34;a&#34;:|&#34;&lt;b&gt;&#34;}"),
        ("one, two", "one, two"),
    ],
)
def test_texts_break_after_separators_but_not_inside_of_addresses(text: str, lines: str) -> None:
    assert breakable(text) == lines.replace("|", "<wbr>")
