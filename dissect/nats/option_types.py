"""How an option is declared, and how its value is read.

An option is declared once, where its value is kept: as `Annotated[type, "help", Opt(...)]` on a field of
`Options`, or of the options of a command, of a Spark job or of the data source. The options of the command
line, the keywords of the Python functions, the options of the data source and the tables of the manual are
made from these declarations.

Everywhere a value is either an object or its text form: `8 << 30` or "8G", 0.5 or "500ms", False or "false".
The same form reads and checks both, so an error is the same everywhere: "NAME must be ..., not ...".
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from functools import cache
from inspect import signature
from typing import NoReturn, get_type_hints

from natsync.protocol import Kind

from .capture.time_range import TimeBound, time_bound
from .number_formats import duration_of, size_of, whole_of

_LONGEST = 1e9  # seconds: 31 years


class OptionGroup(Enum):
    """The part of the help in which an option stands; the order is that of the help."""

    RULES = "Rules"
    OUTPUT = "Output"
    SELECTION = "Selection"
    SPARK = "Spark"
    DISSECTION = "Dissection"
    LIMITS = "Limits of time and memory: what they drop is counted"


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """How the values of an option look.

    `expected` describes a value in errors, `metavar` stands for one in the help, and `range` is the part of
    `expected` that the help shows. `convert` makes the value of an object of one of these `types`, also of
    its text form; it raises ValueError or TypeError. `text` is the text form of a default value. An option
    with `choices` takes one of these texts. If it is `repeated`, it takes one value or several.
    """

    expected: str
    metavar: str
    types: tuple[type, ...]
    convert: Callable[..., object]
    range: str = ""
    text: Callable[..., str] = str
    choices: tuple[str, ...] = ()
    repeated: bool = False

    def read(self, value: object) -> object:
        """The value, which may have its text form. Raises TypeError for a value of another type and
        ValueError for a wrong one, with a text that says what it must be."""
        text = f"must be {self.expected}, not {value!r}"
        is_known = isinstance(value, self.types) and not isinstance(value, bool)
        try:
            if is_known or (isinstance(value, bool) and bool in self.types):
                return self.convert(value)
        except ValueError:
            raise ValueError(text) from None
        except TypeError:
            pass
        raise TypeError(text)


def text(metavar: str) -> Form:
    """A text that is checked where it is used."""
    return Form("a text", metavar, (str,), str)


def file_name(metavar: str) -> Form:
    """The name of a file to write."""
    expected = "the name of a file, or - for standard output"
    return Form(expected, metavar, (str,), lambda name: name or _refuse())


def flag() -> Form:
    """True or False; None would mean False, and "false" True."""

    def convert(value: bool | str) -> bool:
        return bool(("false", "true").index(str(value).strip().lower()))

    return Form("True or False", "", (bool, str), convert)


def whole(least: int = 0, most: int | None = None) -> Form:
    """A whole number."""
    shown = (f"{least} or more" if least else "") if most is None else f"{least} to {most}"

    def convert(value: int | str) -> int:
        number = whole_of(value) if isinstance(value, str) else value
        if number < least or (most is not None and number > most):
            raise ValueError
        return min(number, sys.maxsize)  # neither Arrow nor `islice` takes more

    return Form(_with(shown or "0 or more", "a whole number"), "N", (int, str), convert, shown)


def byte_size(least: int = 0) -> Form:
    """A number of bytes, such as 64M."""
    shown = f"{least} bytes or more" if least else ""

    def convert(value: int | str) -> int:
        number = size_of(value) if isinstance(value, str) else value
        return number if number >= least else _refuse()

    return Form(_with(shown, "a size such as 64M"), "SIZE", (int, str), convert, shown, unit_text)


def unit_text(number: int) -> str:
    """A size in the largest unit that divides it: 128M."""
    units = iter("kMGT")
    unit = ""
    while number and number % 1024 == 0 and (larger := next(units, "")):
        number, unit = number // 1024, larger
    return f"{number}{unit}"


def seconds(least: float = 0, most: float = _LONGEST, positive: bool = False) -> Form:
    """A number of seconds, or a duration such as 30s."""
    shown = "more than 0" if positive else f"{least:g} or more" if least else ""
    shown = shown if most == _LONGEST else f"{least:g} to {most:g}"

    def convert(value: float | timedelta | str) -> float:
        if isinstance(value, timedelta):
            return convert(value.total_seconds())
        number = duration_of(value) if isinstance(value, str) else float(value)
        if not least <= number <= most or (positive and not number):
            raise ValueError  # so does NaN
        return number

    return Form(
        _with(shown, "a number of seconds or a duration such as 30s"),
        "S",
        (int, float, timedelta, str),
        convert,
        shown,
        "{:.10g}".format,
    )


def time() -> Form:
    """The time of a packet. A number does not say what it counts from, a datetime may have no zone."""
    expected = (
        "a time such as 2026-11-21T02:01:43Z, @1795226503 (seconds since 1970) or 1.5 (seconds after the"
        " first packet)"
    )
    types = (TimeBound, str)
    return Form(expected, "TIME", types, lambda at: time_bound(at) if isinstance(at, str) else at)


def one_of(values: Iterable[str] | type[Enum]) -> Form:
    """One of these texts, or a member of an Enum, whose text form is its value."""
    known: dict[str, object] = {
        str(each.value if isinstance(each, Enum) else each): each for each in values
    }
    choices = tuple(known)

    def convert(value: object) -> object:
        if not isinstance(value, str):
            return value
        return known[value] if value in known else _refuse()

    return Form(
        " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1]))),
        f"[{'|'.join(choices)}]",
        (values, str) if isinstance(values, type) else (str,),
        convert,
        text=lambda value: str(value.value if isinstance(value, Enum) else value),
        choices=choices,
    )


def several(each: Form, metavar: str, made: Callable[..., object] = tuple) -> Form:
    """One value of a form, or several of them, also as a text with commas."""

    def convert(value: object) -> object:
        return made(list(map(each.read, _parts(value, each.types)))) or _refuse()

    expected = f"one or several of {each.expected}"
    types = (*each.types, Collection)
    return Form(expected, metavar, types, convert, choices=each.choices, repeated=True)


def texts(metavar: str, expected: str) -> Form:
    """One text or path, or several, as a tuple; a comma is a part of a text."""

    def fspath(each: object) -> str:
        if not isinstance(each, (str, os.PathLike)):
            raise TypeError
        return os.fspath(each)

    def convert(value: object) -> tuple[str, ...]:
        return tuple(map(fspath, _several(value, (str, os.PathLike))))

    return Form(expected, metavar, (str, os.PathLike, Collection), convert, repeated=True)


def ports() -> Form:
    """The kinds of the connections on some ports: {4222: "client"} or "4222=client,7222=leafnode"."""
    port, kind = whole(1, 65535), one_of(Kind)

    def convert(value: object) -> object:
        if not isinstance(value, Mapping):
            value = dict(map(_pair, _parts(value) or _refuse()))
        return {port.read(number): kind.read(name) for number, name in value.items()}

    expected = f"port=kind, such as 4222=client; kinds are {', '.join(kind.choices)}"
    return Form(expected, "N=KIND", (Mapping, str, Collection), convert, repeated=True)


def pairs(metavar: str, example: str, begin: str = "") -> Form:
    """Texts by name: {"spark.x": "1"} or "spark.x=1", several times. `begin` is that of every name."""

    def convert(value: object) -> dict[str, str]:
        found = dict(value if isinstance(value, Mapping) else map(_pair, _several(value)))
        if not all(re.fullmatch(rf"{re.escape(begin)}[^=\s]+", name) for name in found):
            raise ValueError
        return found

    types = (Mapping, str, Collection)
    return Form(f"{metavar}, such as {example}", metavar, types, convert, repeated=True)


def lists(metavar: str, example: str) -> Form:
    """Lists of texts by name: "NAME=VALUE", several times, also for more values of one name."""

    def convert(value: object) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, text in map(_pair, _several(value)):
            found.setdefault(name or _refuse(), []).append(text or _refuse())
        return found

    expected = f"{metavar}, such as {example}"
    return Form(expected, metavar, (str, Collection), convert, repeated=True)


def _refuse() -> NoReturn:
    raise ValueError


def _with(shown: str, expected: str) -> str:
    return f"{expected}, {shown}" if shown else expected


def _several(value: object, types: tuple[type, ...] = (str,)) -> Collection[object]:
    """A value of these types, or those of a collection."""
    if isinstance(value, types):
        return [value]
    assert isinstance(value, Collection)
    return value


def _parts(value: object, types: tuple[type, ...] = ()) -> list[object]:
    """The values in one value: a value of these types, a text with commas, or a collection of both."""
    found: list[object] = []
    for each in _several(value, (str, *types)):
        texts = map(str.strip, each.split(",")) if isinstance(each, str) else None
        found += filter(None, texts) if texts else [each]
    return found


def _pair(value: object) -> tuple[str, str]:
    """The parts of `NAME=VALUE`."""
    if not isinstance(value, str):
        raise TypeError
    name, equals, text = value.partition("=")
    return (name.strip(), text.strip()) if equals else _refuse()


@dataclass(frozen=True, slots=True)
class Opt:
    """The declaration of an option: its group in the help, and the form of its values. Its name and its
    default value are those of the field that it annotates, beside a text for the help.

    `flags` are its names on the command line, if these do not follow from its name. `default` is the text
    that the help shows instead of the default value. An `optional` one may be None. `--help` shows those that
    are `common` or required, `--help-all` shows all.
    """

    group: OptionGroup
    form: Form
    help: str = ""
    flags: tuple[str, ...] = ()
    default: str = ""
    required: bool = False
    optional: bool = False
    common: bool = False

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
        if metadata := getattr(hint, "__metadata__", ()):
            *texts, opt = metadata
            value = values[name].default
            is_shown = isinstance(value, (str, int, float, Enum)) and not isinstance(value, bool)
            default = opt.default or (opt.form.text(value) if is_shown else "")
            help = "".join(texts) or opt.help
            found[name] = replace(opt, help=help, default=default, optional=value is None)
    return found


def changed(options: object) -> list[str]:
    """The names of the options that do not have their default values."""
    default = type(options)()
    names = declared(type(options))
    return [name for name in names if getattr(options, name) != getattr(default, name)]


def unknown(
    place: str, name: str, taken: Iterable[str], instead: Mapping[str, str]
) -> tuple[str, str]:
    """Why a place has no such option, and what to do: `instead` says it for options of other places."""
    remedy = instead.get(name) or f"there are {', '.join(sorted(taken))}"
    return f"{place} has no option {name!r}", remedy
