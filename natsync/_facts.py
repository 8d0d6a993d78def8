"""`Facts`: the base of errors that have attributes. The attributes are also the arguments of the
constructor, survive pickling, and make up the text: `_text = "bucket {bucket} not found"`."""

from __future__ import annotations

import copy
from typing import ClassVar, TypeVar

from .protocol.errors import Error
from .protocol.structs import dataclass_transform

__all__ = ["Facts", "fresh"]

_E = TypeVar("_E", bound=BaseException)


def fresh(error: _E) -> _E:
    """Returns a copy of `error` with its cause. Threads that raise the same error raise a copy each, so that
    each has its own traceback."""
    again = copy.copy(error)
    again.__cause__ = error.__cause__
    return again


@dataclass_transform(eq_default=False)
class Facts(Error):
    """The base of errors made of facts: the annotated fields are the arguments and attributes, and survive
    pickling. Subclasses are not dataclasses, since thirty of those take a tenth of the time of every
    import."""

    _names: ClassVar[tuple[str, ...]] = ()
    _text = ""
    """The text, with attributes in braces. A class whose text depends on them has `__str__` instead."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._names += tuple(name for name in cls.__annotations__ if name not in cls._names)
        setattr(cls, "__match_args__", cls._names)
        if cls.__module__.startswith("natsync."):
            # Tracebacks and pickles name the package that users import these from.
            cls.__module__ = cls.__module__.removesuffix(".errors")

    def __init__(self, *values: object, **named: object) -> None:
        names, cls = self._names, type(self)
        arguments = {**dict(zip(names, values)), **named}
        defaults = {name: getattr(cls, name) for name in names if hasattr(cls, name)}
        facts = {**defaults, **arguments}
        if len(arguments) < len(values) + len(named) or facts.keys() != {*names}:
            raise TypeError(f"{cls.__name__} takes {', '.join(names) or 'no arguments'}")
        self.__dict__.update(facts)

    def __str__(self) -> str:
        return self._text.format_map(_Attributes(self)) if self._text else super().__str__()

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), tuple(getattr(self, name) for name in self._names)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names)
        return f"{type(self).__name__}({shown})"


class _Attributes(dict[str, object]):
    """The attributes of an error by name, for its text."""

    def __init__(self, error: Facts) -> None:
        super().__init__()
        self._error = error

    def __missing__(self, name: str) -> object:
        return getattr(self._error, name)
