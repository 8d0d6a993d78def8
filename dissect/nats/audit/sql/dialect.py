"""SQL fragments that DuckDB and Spark SQL read in the same way, and the few that each spells differently.

Text literals contain no quote and no backslash, because only Spark treats a backslash as an escape: these
characters are written `chr(39)` and `chr(92)`. Columns are written `r.name`, so names need no quotes: after a
dot, both engines accept any word as a name.

Comparisons ignore the case of the letters A to Z. Beyond ASCII, `lower` and case-insensitive regular
expressions differ between the engines.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from enum import Enum

_SPELLED = {"'": "chr(39)", "\\": "chr(92)"}
_LIKE_ESCAPE = "!"
ANY_TEXT = "%"
ANY_CHARACTER = "_"


class Dialect(Enum):
    """The engine that runs the SQL."""

    DUCKDB = "DuckDB"
    SPARK = "Spark SQL"

    @property
    def keeps_steps(self) -> bool:
        """Whether a common table expression that is named several times is calculated once. Spark calculates
        it each time, and a query that names many of them several times takes minutes to plan."""
        return self is Dialect.DUCKDB

    def any_of(self, items: str, name: str, condition: str) -> str:
        """Whether the condition on `name` is true for one of the items of a list."""
        if self is Dialect.SPARK:
            return f"exists({items}, {name} -> {condition})"
        return f"len(list_filter({items}, lambda {name}: {condition})) > 0"

    def holds_of(self, value: str, name: str, condition: str) -> str:
        """Whether the condition is true with `name` bound to a value. The value is planned and calculated
        once, even if the condition uses it several times."""
        return self.any_of(
            f"array({value})" if self is Dialect.SPARK else f"[{value}]", name, condition
        )

    def folded(self, text: str) -> str:
        """A text with the letters A to Z in lower case."""
        translated = f"translate({text}, '{string.ascii_uppercase}', '{string.ascii_lowercase}')"
        if self is Dialect.SPARK:
            return translated
        # DuckDB's `translate` takes a microsecond, `lower` a fortieth of that. Texts of ASCII alone have as
        # many bytes as characters.
        is_ascii = f"strlen({text}) = length({text})"
        return f"CASE WHEN {is_ascii} THEN lower({text}) ELSE {translated} END"

    def matches(self, text: str, pattern: str) -> str:
        """Whether a regular expression matches a part of the text."""
        function = "regexp_like" if self is Dialect.SPARK else "regexp_matches"
        return f"{function}({text}, {literal(pattern)})"

    def json_text(self, text: str, keys: Sequence[str]) -> str:
        """A value in a JSON object as text; NULL if it is missing or the text is not JSON. Keys are words."""
        path = literal(".".join(["$", *keys]))
        if self is Dialect.SPARK:
            return f"get_json_object({text}, {path})"
        return f"CASE WHEN json_valid({text}) THEN json_extract_string({text}, {path}) END"


def literal(text: str) -> str:
    """A text as an SQL expression. Raises ValueError for a text that no engine can read."""
    if "\0" in text:
        raise ValueError("a text cannot contain the character NUL")
    if text.encode("utf-8", "replace").decode("utf-8") != text:
        raise ValueError("a text cannot contain half a surrogate pair")
    parts: list[str] = []
    plain = ""
    for character in text:
        if character in _SPELLED:
            parts += [f"'{plain}'", _SPELLED[character]] if plain else [_SPELLED[character]]
            plain = ""
        else:
            plain += character
    if plain or not parts:
        parts.append(f"'{plain}'")
    return parts[0] if len(parts) == 1 else f"({' || '.join(parts)})"


def fold(text: str) -> str:
    """A Python string with the letters A to Z in lower case."""
    return text.translate(str.maketrans(string.ascii_uppercase, string.ascii_lowercase))


def like(text: str, pattern: str) -> str:
    """Whether a pattern made of `like_escaped` texts, `%` and `_` matches the whole text."""
    return f"{text} LIKE {literal(pattern)} ESCAPE '{_LIKE_ESCAPE}'"


def like_field(text: str, other: str, starts: bool, ends: bool) -> str:
    """Whether a text begins with another one, ends with it, or, with both, contains it."""
    for character in (_LIKE_ESCAPE, ANY_TEXT, ANY_CHARACTER):
        other = f"replace({other}, '{character}', '{_LIKE_ESCAPE}{character}')"
    parts = [*(["'%'"] if ends else []), other, *(["'%'"] if starts else [])]
    # DuckDB's `concat` skips NULL; `||` with NULL is NULL.
    return f"{text} LIKE ({' || '.join(parts)}) ESCAPE '{_LIKE_ESCAPE}'"


def like_escaped(text: str) -> str:
    """A text escaped for a pattern of `like`."""
    for character in (_LIKE_ESCAPE, ANY_TEXT, ANY_CHARACTER):
        text = text.replace(character, _LIKE_ESCAPE + character)
    return text


def both(conditions: Sequence[str]) -> str:
    """All conditions are true."""
    return _joined(conditions, "AND")


def either(conditions: Sequence[str]) -> str:
    """One of the conditions is true."""
    return _joined(conditions, "OR")


def _joined(conditions: Sequence[str], word: str) -> str:
    return conditions[0] if len(conditions) == 1 else f"({f' {word} '.join(conditions)})"
