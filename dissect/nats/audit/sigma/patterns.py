r"""Regular expressions that RE2 (DuckDB) and java.util.regex (Spark) match in the same way.

A rule's pattern is parsed and rewritten in the syntax that both engines share. `$` matches only at the very
end of the text, `.` any character but a newline (without the flag `s`), `\d`, `\w` and `\s` match ASCII only,
and `i` applies to the letters A to Z. `[` and `&&` inside a class are literals. Syntax that one engine lacks,
or interprets differently, is refused by name: look-around, back references, possessive quantifiers, property
classes, POSIX classes, `m`, `x`.

The engines agree on `\b`, except next to non-ASCII letters on Java before 19.
"""

from __future__ import annotations

import re

from sigma.types import SigmaRegularExpression, SigmaRegularExpressionFlag

_MOST_REPEATS = 1000  # RE2's limit, also for the product of repeats within each other
_SPACE = r"\t\n\f\r "
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\x0b"}
_WRITTEN = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\f": r"\f", "\x0b": r"\x0b"}
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": _SPACE}
_NEGATED = {"D": "[^0-9]", "W": "[^0-9A-Za-z_]", "S": f"[^{_SPACE}]"}
_ANCHORS = {"b": r"\b", "B": r"\B", "A": r"\A", "z": r"\z"}
_FLAGS = re.compile(r"\(\?([a-zA-Z]+)\)")
_HEXADECIMAL = re.compile(r"x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")
_REPEAT = re.compile(r"[*+?]|\{([0-9]+)(?:,([0-9]*))?\}")
_UNREPEATABLE = {"(?:", "|", "^", r"\z", r"\A", r"\b", r"\B"}
_NAMED = re.compile(r"\(\?P?<[A-Za-z_]\w*>")
_REFUSED = {
    "(?=": "look-ahead",
    "(?!": "look-ahead",
    "(?<=": "look-behind",
    "(?<!": "look-behind",
    "(?>": "an atomic group",
    "(?P=": "a back reference",
    "(?#": "a comment",
    "(?(": "a conditional group",
}
_LAST = "\U0010ffff"


def portable(value: SigmaRegularExpression) -> str:
    """The pattern in syntax that both engines share. Raises ValueError for syntax that they do not."""
    flags = {SigmaRegularExpression.sigma_to_re_flag[flag] for flag in value.flags}
    if SigmaRegularExpressionFlag.MULTILINE in value.flags:
        raise ValueError("multiline regular expressions are not supported")
    # pySigma adds the wildcards of `contains` and similar modifiers to the pattern as `.*`.
    return portable_pattern(value.regexp.to_plain_regex(), flags)


def portable_pattern(pattern: str, flags: set[str]) -> str:
    """Like `portable`, for a pattern as text and its flags."""
    if leading := _FLAGS.match(pattern):
        flags = flags | set(leading[1])
        pattern = pattern[leading.end() :]
    if unknown := flags - {"i", "s"}:
        raise ValueError(f"the flag {min(unknown)!r} of regular expressions is not supported")
    return _Scanner(pattern, "i" in flags, "s" in flags).scanned()


class _Scanner:
    """Parses a pattern from left to right, and rewrites it."""

    def __init__(self, pattern: str, any_case: bool, dot_all: bool) -> None:
        self._text = pattern
        self._at = 0
        self._any_case = any_case
        self._dot = "(?s:.)" if dot_all else r"[^\n]"
        self._repeats = False  # whether a quantifier may follow
        self._groups = [1]  # of each open group, the most repeats of what is in it
        self._product = 1  # the repeats of what a quantifier would repeat

    def scanned(self) -> str:
        """The rewritten pattern."""
        written = []
        while self._at < len(self._text):
            quantifier = self._quantifier()
            written.append(quantifier or self._next())
            self._groups[-1] = max(self._groups[-1], self._product)
            self._repeats = not quantifier and written[-1] not in _UNREPEATABLE
        if len(self._groups) > 1:
            raise ValueError("a parenthesis of the regular expression is not closed")
        return "".join(written)

    def _next(self) -> str:
        self._product = 1
        character = self._text[self._at]
        if character == "(":
            return self._group()
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escape()
        self._at += 1
        if character == ")":
            if len(self._groups) == 1:
                raise ValueError("a parenthesis of the regular expression is not opened")
            self._product = self._groups.pop()
        simple = {".": self._dot, "$": r"\z", "^": "^", "|": "|", ")": ")"}
        return simple.get(character) or self._literal(character)

    def _group(self) -> str:
        rest = self._text[self._at :]
        for start, name in _REFUSED.items():
            if rest.startswith(start):
                raise ValueError(f"{name} in a regular expression is not supported")
        named = _NAMED.match(rest)
        self._groups.append(1)
        if named:
            self._at += named.end()
        elif rest.startswith("(?:"):
            self._at += 3
        elif rest.startswith("(?"):
            raise ValueError("flags inside of a regular expression are not supported")
        else:
            self._at += 1
        return "(?:"

    def _quantifier(self) -> str:
        """The quantifier that comes next, if there is one."""
        repeat = _REPEAT.match(self._text, self._at)
        if not repeat:
            return ""
        if not self._repeats:
            raise ValueError(f"{repeat[0]!r} in a regular expression repeats nothing")
        numbers = [int(number) for number in repeat.groups() if number]
        if numbers != sorted(numbers):
            raise ValueError(f"the repeat {repeat[0]} of a regular expression is empty")
        self._product *= max(numbers, default=1) or 1
        if self._product > _MOST_REPEATS:
            raise ValueError(
                f"more than {_MOST_REPEATS} repeats, counted within each other, in a regular expression"
            )
        self._at = repeat.end()
        return repeat[0] + self._lazy()

    def _lazy(self) -> str:
        """The `?` of a lazy quantifier, if it comes next."""
        after = self._text[self._at : self._at + 1]
        if after == "+":
            raise ValueError("a possessive quantifier in a regular expression is not supported")
        if after == "?":
            self._at += 1
            return "?"
        return ""

    def _escape(self) -> str:
        sign = self._text[self._at + 1 : self._at + 2]
        if sign in _ANCHORS and sign:
            self._at += 2
            return _ANCHORS[sign]
        if sign in _NEGATED and sign:
            self._at += 2
            return _NEGATED[sign]
        if sign in _CLASSES and sign:
            self._at += 2
            return f"[{_CLASSES[sign]}]"
        return self._literal(self._escaped())

    def _escaped(self) -> str:
        """The character that an escape sequence stands for."""
        sign = self._text[self._at + 1 : self._at + 2]
        if sign in _CONTROLS and sign:
            self._at += 2
            return _CONTROLS[sign]
        if code := _HEXADECIMAL.match(self._text, self._at + 1):
            self._at = code.end()
            number = int(code[1] or code[2], 16)
            if number == 0 or number > ord(_LAST) or 0xD800 <= number < 0xE000:
                raise ValueError(
                    f"\\{code[0]} in a regular expression is not a character of a string"
                )
            return chr(number)
        if not sign or sign.isalnum() or not sign.isascii():
            raise ValueError(f"\\{sign} in a regular expression is not supported")
        self._at += 2
        return sign

    def _literal(self, character: str) -> str:
        if self._any_case and character.isascii() and character.isalpha():
            return f"[{character.lower()}{character.upper()}]"
        return _quoted(character)

    def _class(self) -> str:
        self._at += 1
        negated = self._takes("^")
        items: list[str] = []
        while self._at < len(self._text):
            if self._text[self._at] == "]" and items:
                self._at += 1
                return f"[{'^' if negated else ''}{''.join(items)}]"
            items.append(self._item())
        raise ValueError("a class of the regular expression is not closed")

    def _takes(self, sign: str) -> bool:
        taken = self._text.startswith(sign, self._at)
        self._at += taken
        return taken

    def _item(self) -> str:
        """A member of a class, or a range."""
        if self._text.startswith("[:", self._at):
            raise ValueError("a POSIX class in a regular expression is not supported")
        sign = self._text[self._at + 1 : self._at + 2]
        if self._text[self._at] == "\\" and sign:
            if sign in _CLASSES:
                self._at += 2
                return _CLASSES[sign]
            if sign in _NEGATED or sign in _ANCHORS:
                raise ValueError(f"\\{sign} in a class of a regular expression is not supported")
        first = self._member()
        after = self._text[self._at : self._at + 2]
        if len(after) < 2 or after[0] != "-" or after[1] == "]":
            return self._range(first, first)
        self._at += 1
        return self._range(first, self._member())

    def _member(self) -> str:
        if self._text[self._at] == "\\":
            return self._escaped()
        self._at += 1
        return self._text[self._at - 1]

    def _range(self, first: str, last: str) -> str:
        if first > last:
            raise ValueError(f"the range {first}-{last} of a regular expression is empty")
        ranges = [(first, last)]
        if self._any_case:
            for start, end, other in (("a", "z", "A"), ("A", "Z", "a")):
                low, high = max(first, start), min(last, end)
                if low <= high:
                    shift = ord(other) - ord(start)
                    ranges.append((chr(ord(low) + shift), chr(ord(high) + shift)))
        return "".join(
            _quoted(low) if low == high else f"{_quoted(low)}-{_quoted(high)}"
            for low, high in ranges
        )


def _quoted(character: str) -> str:
    """The character as a literal, inside and outside of classes."""
    if character in _WRITTEN:
        return _WRITTEN[character]
    if character.isascii() and not character.isalnum() and character not in " _":
        return f"\\{character}" if character.isprintable() else f"\\x{ord(character):02x}"
    return character
