"""SQL that tells whether a field has a value of a rule: true or false, and never NULL.

Sigma ignores the case of texts, unless the modifier is `cased`; here, only the case of the letters A to Z is
ignored. `*` stands for any text and `?` for one character. A list has a value if one of its items has it.
An absent field has no value, so comparisons with it are false, and their negations true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sigma.types import (
    CompareOperators,
    Placeholder,
    SigmaBool,
    SigmaCasedString,
    SigmaCIDRExpression,
    SigmaCompareExpression,
    SigmaExists,
    SigmaExpansion,
    SigmaFieldReference,
    SigmaNull,
    SigmaNumber,
    SigmaRegularExpression,
    SigmaString,
    SigmaTimestampPart,
    SigmaType,
    SpecialChars,
)

from ...schema.declaration import Type
from ..sigma.patterns import portable
from .addresses import in_network
from .dialect import (
    ANY_CHARACTER,
    ANY_TEXT,
    Dialect,
    either,
    fold,
    like,
    like_escaped,
    like_field,
    literal,
)
from .fields import Field, field_of, searched_fields

_OPERATORS = {
    CompareOperators.LT: "<",
    CompareOperators.LTE: "<=",
    CompareOperators.GT: ">",
    CompareOperators.GTE: ">=",
    CompareOperators.NEQ: "<>",
}
_WILDCARDS = {SpecialChars.WILDCARD_MULTI: ANY_TEXT, SpecialChars.WILDCARD_SINGLE: ANY_CHARACTER}
_ITEM = "item"


class Matcher:
    """Compiles the values of one rule. `joined` becomes true when a field of the session is used; `unset`
    collects the placeholders that `variables` does not have."""

    def __init__(
        self, table: str, dialect: Dialect, variables: Mapping[str, Sequence[str]]
    ) -> None:
        self._table = table
        self._dialect = dialect
        self._variables = variables
        self.joined = False
        self.unset: set[str] = set()

    def field(self, name: str) -> Field:
        """The field of this name. Raises ValueError."""
        found = field_of(self._table, name, self._dialect)
        self.joined |= found.joined
        return found

    def matches(self, name: str, value: SigmaType) -> str:
        """SQL for: the field has the value. Raises ValueError for a value that it cannot have."""
        field = self.field(name)
        if (values := self._expanded(value)) is not None:
            return either([self.matches(name, each) for each in values] or ["FALSE"])
        if isinstance(value, SigmaNull):
            return f"{field.sql} IS NULL"
        if isinstance(value, SigmaExists):
            return f"{field.sql} IS {'NOT ' if value.exists else ''}NULL"
        if field.type is Type.TEXTS:
            item = Field(name, _ITEM, Type.TEXT)
            condition = self._holds(item, value)
            return f"coalesce({self._dialect.any_of(field.sql, _ITEM, condition)}, FALSE)"
        return f"coalesce({self._holds(field, value)}, FALSE)"

    def keyword(self, value: SigmaType) -> str:
        """SQL for: a text of the row contains the value. Raises ValueError."""
        if (values := self._expanded(value)) is not None:
            return either([self.keyword(each) for each in values] or ["FALSE"])
        if isinstance(value, SigmaNumber):
            value = SigmaString(str(value.number))
        if not isinstance(value, (SigmaString, SigmaRegularExpression)):
            raise ValueError(f"a keyword is a text, not {_name(value)}")
        if isinstance(value, SigmaString):
            value = _within(value)
        return either([self._in(field, value) for field in searched_fields(self._table)])

    def _expanded(self, value: SigmaType) -> Sequence[SigmaType] | None:
        """The alternatives of an expansion, or a text with its placeholders replaced; None for others."""
        if isinstance(value, SigmaExpansion):
            return list(value.values)
        if not isinstance(value, (SigmaString, SigmaRegularExpression)):
            return None
        if not value.contains_placeholder():
            return None
        if isinstance(value, SigmaRegularExpression):
            raise ValueError("placeholders in regular expressions are not supported")
        cased = isinstance(value, SigmaCasedString)
        found = value.replace_placeholders(self._replacements)
        return [SigmaCasedString.from_sigma_string(each) for each in found] if cased else found

    def _replacements(self, placeholder: Placeholder) -> Iterator[str]:
        if placeholder.name not in self._variables:
            self.unset.add(placeholder.name)
        yield from self._variables.get(placeholder.name, ())

    def _in(self, field: Field, value: SigmaType) -> str:
        if field.type is Type.TEXT:
            return f"coalesce({self._holds(field, value)}, FALSE)"
        condition = self._holds(Field(field.name, _ITEM, Type.TEXT), value)
        return f"coalesce({self._dialect.any_of(field.sql, _ITEM, condition)}, FALSE)"

    def _holds(self, field: Field, value: SigmaType) -> str:
        """Like `matches`, for a single value other than null; the SQL is NULL if the field is."""
        if field.type in (Type.COUNTS, Type.HEADERS):
            raise ValueError(f"{field.name!r} is a map: name one of its keys, {field.name}.KEY")
        if isinstance(value, SigmaTimestampPart):
            raise ValueError("parts of times (minute, hour, day ...) are not supported")
        if isinstance(value, SigmaBool):
            return _is_boolean(field, value.boolean)
        if isinstance(value, SigmaNumber):
            return _is_number(field, value.number)
        if isinstance(value, SigmaCompareExpression):
            return _compares(field, value)
        if isinstance(value, SigmaString):
            return _has_text(field, value, self._dialect)
        if isinstance(value, SigmaRegularExpression):
            return self._dialect.matches(_text(field), portable(value))
        if isinstance(value, SigmaCIDRExpression):
            return in_network(_text(field), value.network, self._dialect)
        if isinstance(value, SigmaFieldReference):
            return self._equals_field(field, value)
        raise ValueError(f"{_name(value)} is not supported")

    def _equals_field(self, field: Field, value: SigmaFieldReference) -> str:
        other = self.field(value.field)
        if other.type in (Type.COUNTS, Type.HEADERS, Type.TEXTS):
            raise ValueError(f"{other.name!r} has no single value")
        if Type.INTEGER in (field.type, other.type) and field.type is other.type:
            if value.starts_with or value.ends_with:
                raise ValueError(f"{field.name!r} is a number, and has no parts")
            return f"{field.sql} = {other.sql}"
        one, two = (self._dialect.folded(_text(each)) for each in (field, other))
        if value.starts_with or value.ends_with:
            return like_field(one, two, value.starts_with, value.ends_with)
        return f"{one} = {two}"


def _name(value: SigmaType) -> str:
    return type(value).__name__.removeprefix("Sigma")


def _text(field: Field) -> str:
    return field.sql if field.type is Type.TEXT else f"CAST({field.sql} AS STRING)"


def _number(number: int | float) -> str:
    return str(number) if isinstance(number, int) else f"CAST('{number!r}' AS DOUBLE)"


def _as_number(field: Field) -> str:
    if field.type is Type.INTEGER:
        return field.sql
    return f"try_cast({field.sql} AS DECIMAL(38, 9))"


def _is_boolean(field: Field, value: bool) -> str:
    if field.type is Type.BOOLEAN:
        return f"{field.sql} = {str(value).upper()}"
    if field.json:
        return f"{field.sql} = '{str(value).lower()}'"
    raise ValueError(f"{field.name!r} is {field.type.value}, and neither true nor false")


def _is_number(field: Field, number: int | float) -> str:
    if field.type is Type.INTEGER or field.json:
        return f"{_as_number(field)} = {_number(number)}"
    if field.type is Type.TEXT:
        return f"{field.sql} = {literal(str(number))}"
    raise ValueError(f"{field.name!r} is {field.type.value}, and no number")


def _compares(field: Field, value: SigmaCompareExpression) -> str:
    if field.type is not Type.INTEGER and not field.json:
        raise ValueError(f"{field.name!r} is {field.type.value}, and cannot be compared by size")
    if value.op not in _OPERATORS:
        raise ValueError(f"the comparison {value.op.name.lower()} is not supported")
    return f"{_as_number(field)} {_OPERATORS[value.op]} {_number(value.number.number)}"


def _within(value: SigmaString) -> SigmaString:
    """The text with wildcards before and after it."""
    if not value.startswith(SpecialChars.WILDCARD_MULTI):
        value = SpecialChars.WILDCARD_MULTI + value
    if not value.endswith(SpecialChars.WILDCARD_MULTI):
        value += SpecialChars.WILDCARD_MULTI
    return value


def _has_text(field: Field, value: SigmaString, dialect: Dialect) -> str:
    """SQL for: the field has this text, which may have wildcards."""
    plain = not value.contains_special()
    text = _text(field)
    parts = []
    for part in value.s:
        if isinstance(part, str):
            parts.append(part if plain else like_escaped(part))
        else:
            assert isinstance(part, SpecialChars), "placeholders were replaced"
            parts.append(_WILDCARDS[part])
    pattern = "".join(parts)
    if not isinstance(value, SigmaCasedString) and any(map(_has_case, pattern)):
        text, pattern = dialect.folded(text), fold(pattern)
    return f"{text} = {literal(pattern)}" if plain else like(text, pattern)


def _has_case(character: str) -> bool:
    return character.isascii() and character.isalpha()
