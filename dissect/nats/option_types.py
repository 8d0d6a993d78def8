"""How an option is declared, and how its value is read.

An option is declared once, where its value is kept: as `Annotated[type, Opt(...)]` on a field of `Options`,
or of the options of a command, of a Spark job or of the data source. The options of the command line, the
keywords of the Python functions, the options of the data source and the tables of the manual are made from
these declarations.

Everywhere a value is either an object or its text form: `8 << 30` or "8G", 0.5 or "500ms", False or "false".
The same form reads and checks both, so an error is the same everywhere: "NAME must be ..., not ...".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from functools import cache
from inspect import signature
from typing import get_args, get_type_hints

from natsync.protocol import Kind

from .capture.time_range import TimeBound, time_bound
from .number_formats import duration_of, size_of, whole_of

_LONGEST = 1e9  # seconds: 31 years
_KINDS = [kind.value for kind in Kind]


class Group(Enum):
    """The part of the help in which an option stands; the order is that of the help."""

    RULES = "Rules"
    OUTPUT = "Output"
    SELECTION = "Selection"
    SPARK = "Spark"
    DISSECTION = "Dissection"
    LIMITS = "Limits of time and memory: what they drop is counted"


class Form:
    """How the values of an option look.

    `metavar` stands for a value in the help, `expected` describes it in errors, and `range` in the help.
    `types` are the types of the values that can be read. An option with `choices` takes one of these texts.
    If it is `repeated`, it takes one value or several, also as a text with commas.
    """

    types: tuple[type, ...] = (str,)
    metavar: str = "TEXT"
    expected: str = "a text"
    range: str = ""
    choices: tuple[str, ...] = ()
    repeated: bool = False

    def read(self, value: object) -> object:
        """The value, which may have its text form. Raises TypeError for a value of another type and
        ValueError for a wrong one, with a text that says what it must be."""
        known = isinstance(value, self.types) and not (
            isinstance(value, bool) and bool not in self.types
        )
        try:
            if known:
                return self._read(value)
        except ValueError:
            raise ValueError(f"must be {self.expected}, not {value!r}") from None
        except TypeError:
            pass
        raise TypeError(f"must be {self.expected}, not {value!r}")

    def _read(self, value: object) -> object:
        return value

    def text(self, value: object) -> str:
        """How the help shows a default value."""
        return str(value.value if isinstance(value, Enum) else value)


class Text(Form):
    """A text that is checked where it is used."""

    def __init__(self, metavar: str) -> None:
        self.metavar = metavar


class FileName(Form):
    """The name of a file to write."""

    expected = "the name of a file, or - for standard output"

    def __init__(self, metavar: str) -> None:
        self.metavar = metavar

    def _read(self, value: object) -> object:
        if not value:
            raise ValueError
        return value


class Flag(Form):
    """True or False."""

    types = (bool, str)
    expected = "True or False"
    metavar = ""

    def _read(self, value: object) -> object:
        if isinstance(value, str):  # None would mean False, and "false" True
            return ("false", "true").index(value.strip().lower()) == 1
        return value


class Whole(Form):
    """A whole number."""

    types = (int, str)

    def __init__(self, least: int = 0, most: int | None = None) -> None:
        self.metavar = "N"
        self._least, self._most = least, most
        self.range = _range(least, most)
        self.expected = f"a whole number{f', {self.range}' if self.range else ''}"

    def _read(self, value: object) -> object:
        number = whole_of(value) if isinstance(value, str) else value
        assert isinstance(number, int)
        if number < self._least or (self._most is not None and number > self._most):
            raise ValueError
        return min(number, sys.maxsize)  # neither Arrow nor `islice` takes more


class Size(Form):
    """A number of bytes, such as 64M."""

    types = (int, str)
    metavar = "SIZE"

    def __init__(self, least: int = 0) -> None:
        self._least = least
        self.range = f"{least} bytes or more" if least else ""
        self.expected = f"a size such as 64M{f', {self.range}' if least else ''}"

    def _read(self, value: object) -> object:
        size = size_of(value) if isinstance(value, str) else value
        assert isinstance(size, int)
        if size < self._least:
            raise ValueError
        return size

    def text(self, value: object) -> str:
        """In the largest unit that divides it: 128M."""
        assert isinstance(value, int)
        number, units = value, iter("kMGT")
        unit = ""
        while number and number % 1024 == 0 and (larger := next(units, "")):
            number, unit = number // 1024, larger
        return f"{number}{unit}"


class Seconds(Form):
    """A number of seconds, or a duration such as 30s."""

    types = (int, float, timedelta, str)
    metavar = "S"

    def __init__(self, least: float = 0, most: float = _LONGEST, positive: bool = False) -> None:
        self._least, self._most, self._positive = least, most, positive
        known = "more than 0" if positive else f"{least:g} or more" if least else ""
        self.range = known if most == _LONGEST else f"{least:g} to {most:g}"
        details = f", {self.range}" if self.range else ""
        self.expected = f"a number of seconds or a duration such as 30s{details}"

    def _read(self, value: object) -> object:
        if isinstance(value, timedelta):
            value = value.total_seconds()
        seconds = duration_of(value) if isinstance(value, str) else value
        assert isinstance(seconds, (int, float))
        if not self._least <= seconds <= self._most or (self._positive and not seconds):
            raise ValueError  # so does NaN
        return float(seconds)

    def text(self, value: object) -> str:
        """In seconds, without needless zeros."""
        return f"{value:.10g}"


class Time(Form):
    """The time of a packet."""

    types = (
        TimeBound,
        str,
    )  # a number does not say what it counts from, a datetime may have no zone
    metavar = "TIME"
    expected = (
        "a time such as 2026-11-21T02:01:43Z, @1795226503 (seconds since 1970) or 1.5 (seconds after the"
        " first packet)"
    )

    def _read(self, value: object) -> object:
        return time_bound(value) if isinstance(value, str) else value


class OneOf(Form):
    """One of some values, of an Enum or texts; the text form of a member is its value."""

    def __init__(self, values: Iterable[str] | type[Enum]) -> None:
        if isinstance(values, type):
            self._values: dict[str, object] = {str(each.value): each for each in values}
            self.types = (values, str)
        else:
            self._values = {each: each for each in values}
        self.choices = tuple(self._values)
        self.metavar = f"[{'|'.join(self.choices)}]"
        self.expected = " or ".join(filter(None, (", ".join(self.choices[:-1]), self.choices[-1])))

    def _read(self, value: object) -> object:
        if isinstance(value, str):
            if value not in self._values:
                raise ValueError
            return self._values[value]
        return value


class Several(Form):
    """One value of a form, or several of them, as a tuple."""

    repeated = True

    def __init__(self, each: Form, metavar: str, expected: str = "") -> None:
        self._each = each
        self.types = (*each.types, Collection)
        self.choices = each.choices
        self.metavar = metavar
        self.expected = expected or f"one or several of {each.expected}"

    def _read(self, value: object) -> object:
        found = tuple(map(self._each.read, _parts(value, self._each.types)))
        if not found:
            raise ValueError
        return found


class Kinds(Several):
    """Kinds of connections."""

    def __init__(self) -> None:
        super().__init__(OneOf(Kind), "KIND")

    def _read(self, value: object) -> object:
        kinds = super()._read(value)
        assert isinstance(kinds, tuple)
        return frozenset(kinds)


class Texts(Form):
    """One text or several, as a tuple; a comma is a part of a text."""

    types = (str, os.PathLike, Collection)
    repeated = True

    def __init__(self, metavar: str, expected: str) -> None:
        self.metavar, self.expected = metavar, expected

    def _read(self, value: object) -> object:
        texts = [value] if isinstance(value, (str, os.PathLike)) else value
        assert isinstance(texts, Collection)
        found = tuple(os.fspath(each) for each in texts)
        if not all(isinstance(each, str) for each in found):
            raise TypeError
        return found


class Ports(Form):
    """The kinds of the connections on some ports: {4222: "client"} or "4222=client,7222=leafnode"."""

    types = (Mapping, str, Collection)
    metavar = "N=KIND"
    expected = f"port=kind, such as 4222=client; kinds are {', '.join(_KINDS)}"
    repeated = True

    def _read(self, value: object) -> object:
        if isinstance(value, Mapping):
            pairs = list(value.items())
        else:
            pairs = [_pair(each) for each in _parts(value)]
            if not pairs:
                raise ValueError
        return {Whole(1, 65535).read(port): OneOf(Kind).read(kind) for port, kind in pairs}


class Pairs(Form):
    """Texts by name: {"spark.x": "1"} or "spark.x=1", several times. `begin` is that of every name."""

    types = (Mapping, str, Collection)
    repeated = True

    def __init__(self, metavar: str, example: str, begin: str = "") -> None:
        self.metavar = metavar
        self.expected = f"{metavar}, such as {example}"
        self._begin = begin

    def _read(self, value: object) -> object:
        if isinstance(value, Mapping):
            pairs = list(value.items())
        else:
            pairs = [_pair(each) for each in _several(value)]
        for name, _ in pairs:
            if not name.startswith(self._begin) or name in ("", self._begin) or " " in name:
                raise ValueError
        return dict(pairs)


class NamedLists(Pairs):
    """Lists of texts by name: "NAME=VALUE", several times, also for more values of one name."""

    def _read(self, value: object) -> object:
        found: dict[str, list[str]] = {}
        for each in _several(value):
            name, text = _pair(each)
            if not (name and text):
                raise ValueError
            found.setdefault(name, []).append(text)
        return found


def _several(value: object) -> Collection[object]:
    """The texts in one value: a text or a collection."""
    assert isinstance(value, Collection)
    return [value] if isinstance(value, str) else value


def _parts(value: object, types: tuple[type, ...] = ()) -> list[object]:
    """The values in one value: a value of these types, a text with commas, or a collection of both."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, types):
        return [value]
    return [
        part
        for each in _several(value)
        for part in (_parts(each) if isinstance(each, str) else [each])
    ]


def _pair(value: object) -> tuple[str, str]:
    """The parts of `NAME=VALUE`."""
    if not isinstance(value, str):
        raise TypeError
    name, equals, text = value.partition("=")
    if not equals:
        raise ValueError
    return name.strip(), text.strip()


def _range(least: int, most: int | None) -> str:
    if most is None:
        return f"{least} or more" if least else ""
    return f"{least} to {most}"


@dataclass(frozen=True, slots=True)
class Opt:
    """The declaration of an option: its group, what the help says, and the form of its values. Its name and
    its default value are those of what it annotates.

    `flags` are its names on the command line, if these do not follow from its name. `default` is the text
    that the help shows instead of the default value. An `optional` one may be None.
    """

    group: Group
    help: str
    form: Form
    flags: tuple[str, ...] = ()
    default: str = ""
    required: bool = False
    optional: bool = False

    def read(self, name: str, value: object) -> object:
        """The value, which may have its text form. Raises TypeError or ValueError, with `name`."""
        if value is None and self.optional:
            return None
        try:
            return self.form.read(value)
        except ValueError as error:
            raise ValueError(f"{name} {error}") from None
        except TypeError as error:
            raise TypeError(f"{name} {error}") from None

    def flag(self, name: str) -> str:
        """Its name on the command line, such as `--max-flows`."""
        return self.flags[-1].partition("/")[0] if self.flags else f"--{name.replace('_', '-')}"


def declared(place: type) -> dict[str, Opt]:
    """The options that a class of options declares, by name, completed by their default values."""
    return _declared(place)


@cache
def _declared(place: type) -> dict[str, Opt]:
    found = {}
    values = signature(place).parameters
    for name, hint in get_type_hints(place, include_extras=True).items():
        opt = next((each for each in _metadata(hint) if isinstance(each, Opt)), None)
        if opt:
            value = values[name].default
            text = opt.default or (opt.form.text(value) if _is_shown(value) else "")
            found[name] = replace(opt, default=text, optional=value is None)
    return found


def _metadata(hint: object) -> Iterable[object]:
    """What annotates a type; before Python 3.11, a default of None puts the annotated type into a union."""
    for each in (hint, *get_args(hint)):
        yield from getattr(each, "__metadata__", ())


def _is_shown(value: object) -> bool:
    return (
        isinstance(value, (str, int, float, Enum)) and not isinstance(value, bool) and value != ""
    )


def unknown(
    place: str, name: str, taken: Iterable[str], instead: Mapping[str, str]
) -> tuple[str, str]:
    """Why a place has no such option, and what to do: `instead` says it for options of other places."""
    remedy = instead.get(name) or f"there are {', '.join(sorted(taken))}"
    return f"{place} has no option {name!r}", remedy
