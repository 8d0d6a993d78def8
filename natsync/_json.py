"""`JSONObject`: frozen dataclasses that are read from, and written to, JSON: the answers of the
JetStream API and of services, and the descriptions of objects.

The annotation of a field determines its JSON form: a `float` is in seconds here and in whole
nanoseconds in JSON; a `datetime` is RFC 3339 text; everything else looks the same. A null counts as
absent. Keys that a class does not know are kept in `extra` and sent back, so that data of a newer
server or client passes through unharmed. So are values of the wrong type; a class that is `_strict`
raises InvalidResponseError for them, because other clients write its JSON, not a server.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, Field, dataclass, field, fields
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import ClassVar, NamedTuple, TypeVar, cast, get_args

from ._checks import INT64, check_range, check_text, check_word, plain
from .errors import InvalidResponseError, OptionError, ProtocolError
from .headers import to_wire
from .protocol import check_subscribe

__all__ = [
    "JSONObject",
    "check_pattern",
    "check_patterns",
    "check_time",
    "decode_object",
    "format_time",
    "parse_time",
    "patterns",
    "since",
    "unsent",
    "within",
]

_T = TypeVar("_T")
_O = TypeVar("_O", bound="JSONObject")
_Limit = Callable[[str, object], None]
_NANOSECONDS = 10**9
_LONGEST = 2**63 - 1
"""The longest time of a server, in nanoseconds: that until any time more than 292 years ahead."""


def since(version: str, default: _T) -> _T:
    """Declares a field with its default; servers know it since `version`."""
    made: _T = field(default=default, metadata={"since": version})
    return made


def within(default: _T, least: int, most: int = INT64, *, since: str = "") -> _T:
    """Declares a number with its default and its range; servers know it `since` a version."""
    return _limited(default, partial(check_range, least, most), since)


def patterns(default: _T, *, since: str = "") -> _T:
    """Declares a subject with wildcards, or a list of them, with its default; servers know it `since` a
    version."""
    return _limited(default, check_patterns, since)


def unsent(default: _T, *, compare: bool = True) -> _T:
    """Declares a field that is no part of the JSON, with its default."""
    made: _T = field(default=default, compare=compare, metadata={"unsent": True})
    return made


def _limited(default: _T, limit: _Limit, since: str) -> _T:
    metadata: dict[str, object] = {"limit": limit} | ({"since": since} if since else {})
    made: _T = field(default=default, metadata=metadata)
    return made


@dataclass(frozen=True, slots=True, repr=False)
class JSONObject:
    """A JSON object. Fields that have their defaults are not sent: the reader has the same defaults."""

    _always: ClassVar[frozenset[str]] = frozenset()
    """The fields that are sent even if they have their defaults."""
    _strict: ClassVar[bool] = False
    """Whether `from_json` refuses values of the wrong type, or out of their range, rather than keep them."""

    _: KW_ONLY
    extra: Mapping[str, object] = field(default_factory=dict)
    _exact: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, codec in _schema(type(self)).items():
            value = codec.check(name, getattr(self, name))
            object.__setattr__(self, name, value)
            if codec.limit and not self._is_kept(name, codec):
                codec.limit(name, value)

    @classmethod
    def from_json(cls: type[_O], value: object, subject: str = "", **facts: object) -> _O:
        """Returns the object that arrived on `subject`; `facts` are its fields that are `unsent`. Raises
        InvalidResponseError if it lacks a field without a default, and if `_strict`, for a wrong value.
        """
        if not isinstance(value, dict):
            raise InvalidResponseError(subject, f"no {cls.__name__}, but {type(value).__name__}")
        schema = _schema(cls)
        known: dict[str, object] = {}
        extra: dict[str, object] = {}
        exact: dict[str, object] = {}
        for key, raw in value.items():
            codec = schema.get(key)
            if codec is None:
                extra[key] = raw
            elif raw is not None:
                try:
                    known[key] = codec.decode(raw, subject)
                except ValueError:
                    if cls._strict:
                        raise _wrong(cls, key, subject) from None
                    extra[key] = raw
                else:
                    if not codec.is_faithful(known[key], raw):
                        if cls._strict and codec.limit:
                            raise _wrong(cls, key, subject)
                        exact[key] = raw
        missing = [name for name, codec in schema.items() if codec.required and name not in known]
        if missing:
            raise InvalidResponseError(subject, f"{cls.__name__} without {', '.join(missing)}")
        return cls._of({**known, **facts, "extra": extra, "_exact": exact})

    @classmethod
    def _of(cls: type[_O], known: Mapping[str, object]) -> _O:
        """Returns the object with these fields, which have been decoded: they need no check, which would take
        half the time of `from_json`."""
        made = object.__new__(cls)
        for name, default in _defaults(cls).items():
            if name in known:
                object.__setattr__(made, name, known[name])
            else:
                value = dict(default) if isinstance(default, dict) else default
                object.__setattr__(made, name, value)
        return made

    def to_json(self, *, complete: bool = False) -> dict[str, object]:
        """Returns the JSON form; `complete` includes the fields that have their defaults."""
        json_object: dict[str, object] = {}
        for name, codec in _schema(type(self)).items():
            value = getattr(self, name)
            if complete or value != codec.default or name in self._always:
                kept = self._is_kept(name, codec)
                json_object[name] = self._exact[name] if kept else codec.encode(value, complete)
        return {**json_object, **self.extra}

    def _is_kept(self, name: str, codec: _Codec) -> bool:
        """Returns whether a field still has the value of a server that `_exact` has the JSON of."""
        exact = self._exact.get(name)
        return exact is not None and bool(codec.decode(exact, "") == getattr(self, name))

    def needs(self) -> Iterator[tuple[str, str]]:
        """The fields that are set, including those of nested objects, each with the server version
        that introduced it."""
        for item in fields(self):
            value = getattr(self, item.name)
            if "since" in item.metadata and value != _default(item):
                yield item.name, item.metadata["since"]
            for inner in value if isinstance(value, tuple) else [value]:
                if isinstance(inner, JSONObject):
                    yield from ((f"{item.name}.{name}", version) for name, version in inner.needs())

    def __repr__(self) -> str:
        shown = [
            f"{item.name}={getattr(self, item.name)!r}"
            for item in fields(self)
            if item.name != "_exact" and getattr(self, item.name) != _default(item)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def _wrong(cls: type, key: str, subject: str) -> InvalidResponseError:
    return InvalidResponseError(subject, f"{key} of {cls.__name__} is wrong")


class _Codec(NamedTuple):
    """How a field is checked when a program sets it, read from JSON, and written to JSON. `limit`
    refuses what no server takes."""

    check: Callable[[str, object], object]
    decode: Callable[[object, str], object]
    encode: Callable[[object, bool], object]
    limit: _Limit | None = None
    is_lossy: bool = False
    default: object = None
    required: bool = False

    def is_faithful(self, value: object, raw: object) -> bool:
        """Returns whether a program could set `value`, and would then send `raw`, its JSON. A
        datetime has no nanoseconds; and a newer server may know more words."""
        if self.limit:
            try:
                self.limit("", value)
            except OptionError:
                return False
        return not self.is_lossy or self.encode(value, False) == raw


_schemas: dict[type, dict[str, _Codec]] = {}


def _schema(cls: type[JSONObject]) -> dict[str, _Codec]:
    """Returns the codecs of the fields in JSON, in order. They are made at the first call, when all
    classes exist."""
    found = _schemas.get(cls)
    if found is None:
        found = _schemas[cls] = _new_schema(cls)
    return found


_fields_of: dict[type, dict[str, object]] = {}


def _defaults(cls: type[JSONObject]) -> dict[str, object]:
    """Returns all fields with their defaults."""
    found = _fields_of.get(cls)
    if found is None:
        found = _fields_of[cls] = {item.name: _default(item) for item in fields(cls)}
    return found


def _new_schema(cls: type[JSONObject]) -> dict[str, _Codec]:
    return {
        item.name: _with_limit(_codec(str(item.type), cls), item)._replace(
            default=_default(item), required=_is_required(item)
        )
        for item in fields(cls)
        if item.name not in ("extra", "_exact") and "unsent" not in item.metadata
    }


def _with_limit(codec: _Codec, item: Field[object]) -> _Codec:
    limit = item.metadata.get("limit")
    return codec._replace(limit=limit) if limit else codec


def check_pattern(subject: str) -> None:
    """Raises ProtocolError for a subject that matches none: servers answer only "bad request", or that
    nothing matches. Also for one that is not UTF-8: JSON would carry another one."""
    check_text(subject=subject)
    check_subscribe(to_wire(subject))
    try:
        subject.encode()
    except UnicodeEncodeError:
        raise ProtocolError("a subject that is not UTF-8, which JSON cannot carry") from None


def check_patterns(name: str, value: object) -> None:
    """Raises OptionError for a subject that matches none; the text of a field may be empty."""
    listed = value if isinstance(value, tuple) else [value] if value else []
    for pattern in cast("Sequence[str]", listed):
        try:
            check_pattern(pattern)
        except ProtocolError as error:
            raise OptionError(name, error.reason) from None


def _default(item: Field[object]) -> object:
    return item.default_factory() if item.default_factory is not MISSING else item.default


def _is_required(item: Field[object]) -> bool:
    return item.default is MISSING and item.default_factory is MISSING


def _codec(annotation: str, cls: type[JSONObject]) -> _Codec:
    """Returns the codec for an annotation. A name that is not one of our classes is an alias of
    string literals."""
    if annotation == "datetime | None":
        return _optional(_SIMPLE["datetime"])._replace(decode=_time_or_none)
    if annotation.endswith(" | None"):
        return _optional(_codec(annotation.removesuffix(" | None"), cls))
    outer, _, inner = annotation.removesuffix("]").partition("[")
    if outer == "Sequence":
        return _sequence(_codec(inner, cls))
    if outer == "Mapping":
        return _mapping(_codec(inner.partition(", ")[2], cls))
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    found = _classes().get(annotation)
    return (
        _object(found) if found else _word(get_args(vars(sys.modules[cls.__module__])[annotation]))
    )


def _word(words: tuple[str, ...]) -> _Codec:
    return _SIMPLE["str"]._replace(limit=partial(check_word, words))


def _classes() -> dict[str, type[JSONObject]]:
    """Returns all subclasses by name. `dataclass(slots=True)` creates each class a second time; the
    later one counts."""
    found: dict[str, type[JSONObject]] = {}
    waiting = [JSONObject]
    while waiting:
        for cls in waiting.pop().__subclasses__():
            found[cls.__name__] = cls
            waiting.append(cls)
    return found


def _simple(kind: type, words: str) -> _Codec:
    def fits(value: object) -> bool:
        return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))

    def check(name: str, value: object) -> object:
        if not fits(value):
            raise TypeError(f"{name} must be {words}, not {type(value).__name__}")
        return plain(value) if isinstance(value, str) else value

    def decode(value: object, subject: str) -> object:
        if not fits(value):
            raise ValueError
        return value

    return _Codec(check, decode, lambda value, complete: value)


def _check_seconds(name: str, value: object) -> object:
    if isinstance(value, timedelta):
        raise TypeError(f"{name} must be a number of seconds: use timedelta.total_seconds()")
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if not abs(value) <= _LONGEST / _NANOSECONDS:  # also refuses NaN
        raise ValueError(f"{name} must be a number of seconds below 292 years, not {value}")
    return float(value)


def _seconds(value: object, subject: str) -> float:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LONGEST:
        raise ValueError
    return value / _NANOSECONDS


def _to_nanoseconds(value: object, complete: bool) -> int:
    assert isinstance(value, float)
    return max(-_LONGEST, min(round(value * _NANOSECONDS), _LONGEST))


def check_time(name: str, value: object) -> datetime:
    """Returns `value`, a point in time. Raises TypeError, and OptionError without a time zone."""
    if not isinstance(value, datetime):
        raise TypeError(f"{name} must be a datetime, not {type(value).__name__}")
    if value.tzinfo is None:
        raise OptionError(name, "must have a time zone: datetime.now(timezone.utc)")
    return value


_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-]\d\d:\d\d))")


def parse_time(text: str) -> datetime:
    """Returns the time in the RFC 3339 text, in UTC; nanoseconds are cut to microseconds. Raises
    ValueError for other text."""
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f"not a time of RFC 3339: {text!r:.40}")
    day, time, fraction, offset = found.groups()
    whole = f"{day}T{time}.{(fraction or '').ljust(6, '0')[:6]}{offset or '+00:00'}"
    try:
        return datetime.fromisoformat(whole).astimezone(timezone.utc)
    except OverflowError:
        raise ValueError(f"not a time from year 1 to 9999 in UTC: {text!r:.40}") from None


def format_time(time: datetime) -> str:
    """Returns `time`, which has a time zone, as RFC 3339 text in UTC."""
    return time.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def _time(value: object, subject: str) -> datetime:
    if not isinstance(value, str):
        raise ValueError
    return parse_time(value)


def _time_or_none(value: object, subject: str) -> datetime | None:
    never = isinstance(value, str) and value.startswith("0001-01-01T00:00:00")  # Go's zero time
    return None if never else _time(value, subject)


def _format(value: object, complete: bool) -> object:
    assert isinstance(value, datetime)
    return format_time(value)


def _optional(inner: _Codec) -> _Codec:
    def check(name: str, value: object) -> object:
        return None if value is None else inner.check(name, value)

    def encode(value: object, complete: bool) -> object:
        return None if value is None else inner.encode(value, complete)

    return inner._replace(check=check, encode=encode)


def _sequence(inner: _Codec) -> _Codec:
    def check(name: str, value: object) -> object:
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            raise TypeError(f"{name} must be a list, not {type(value).__name__}")
        return tuple(inner.check(f"an item of {name}", item) for item in value)

    def decode(value: object, subject: str) -> object:
        if not isinstance(value, list):
            raise ValueError
        return tuple(inner.decode(item, subject) for item in value)

    def encode(value: object, complete: bool) -> object:
        assert isinstance(value, tuple)
        return [inner.encode(item, complete) for item in value]

    return _Codec(check, decode, encode)


def _mapping(inner: _Codec) -> _Codec:
    def check(name: str, value: object) -> object:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise TypeError(f"{name} must be a mapping of str, not {type(value).__name__}")
        return {key: inner.check(f"a value of {name}", item) for key, item in value.items()}

    def decode(value: object, subject: str) -> object:
        if not isinstance(value, dict):
            raise ValueError
        return {key: inner.decode(item, subject) for key, item in value.items()}

    def encode(value: object, complete: bool) -> object:
        assert isinstance(value, dict)
        return {key: inner.encode(item, complete) for key, item in value.items()}

    return _Codec(check, decode, encode)


def _object(cls: type[JSONObject]) -> _Codec:
    def check(name: str, value: object) -> object:
        if not isinstance(value, cls):
            raise TypeError(f"{name} must be {cls.__name__}, not {type(value).__name__}")
        return value

    def encode(value: object, complete: bool) -> object:
        assert isinstance(value, JSONObject)
        return value.to_json(complete=complete)

    return _Codec(check, cls.from_json, encode)


def decode_object(data: bytes, subject: str) -> dict[str, object]:
    """Returns the JSON object in `data`, which arrived on `subject`. Raises InvalidResponseError."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise InvalidResponseError(subject, f"{len(data)} bytes that are not JSON") from None
    if not isinstance(value, dict):
        raise InvalidResponseError(subject, "JSON that is not an object")
    return value


_SIMPLE = {
    "object": _Codec(lambda name, value: value, lambda value, _: value, lambda value, _: value),
    "bool": _simple(bool, "bool"),
    "int": _simple(int, "int")._replace(limit=partial(check_range, -INT64 - 1, INT64)),
    "str": _simple(str, "str"),
    "float": _Codec(_check_seconds, _seconds, _to_nanoseconds, is_lossy=True),
    "datetime": _Codec(check_time, _time, _format, is_lossy=True),
}
