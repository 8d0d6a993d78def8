"""Whether two graphs of objects are alike: types, values, order, and which objects are the same one."""

from __future__ import annotations

from collections import deque
from enum import Enum
from functools import partial
from itertools import chain
from types import FunctionType, MethodType

from dissect.nats.types import Chunk, Gap, Segment
from natsync.protocol import Context, Frame, Grammar, Limits

_PLAIN = (int, str, bytes, bytearray, float, bool, type(None), Enum, type, FunctionType, Grammar)

# Nobody changes one that was handed on: it does not matter whether two are the same.
_VALUES = (Chunk, Gap, Segment, Frame, Context, Limits, tuple, frozenset)

_Path = tuple["_Path", object] | tuple[()]


class _Kind:
    """What holds for all objects of a class. `slots` are those of its bases, too, in order."""

    def __init__(self, kind: type) -> None:
        parameters = getattr(kind, "__dataclass_params__", None)
        self.is_value = issubclass(kind, _VALUES) or bool(parameters and parameters.frozen)
        slots = [each.__dict__.get("__slots__", ()) for each in kind.__mro__]
        self.slots = sorted({*chain(*([one] if isinstance(one, str) else one for one in slots))})


class _Kinds(dict[type, _Kind]):
    def __missing__(self, kind: type) -> _Kind:
        self[kind] = made = _Kind(kind)
        return made


_KINDS = _Kinds()


def difference(one: object, other: object) -> str:
    """The path to the first thing that differs, and how; empty where nothing does."""
    pairs: dict[int, int] = {}
    back: dict[int, int] = {}
    kept = []  # so that no id is used again
    waiting: list[tuple[_Path, object, object]] = [((), one, other)]
    while waiting:
        path, left, right = waiting.pop()
        kind = type(left)
        if kind is not type(right):
            return f"{_text(path)}: {kind.__name__} and {type(right).__name__}"
        if isinstance(left, _PLAIN):
            if left != right:
                return f"{_text(path)}: {left!r:.60} and {right!r:.60}"
            continue
        if not _KINDS[kind].is_value:
            if id(left) in pairs or id(right) in back:
                if pairs.get(id(left)) != id(right) or back.get(id(right)) != id(left):
                    return f"{_text(path)}: one is seen twice"
                continue
            pairs[id(left)], back[id(right)] = id(right), id(left)
        names, parts = _parts(left)
        others, against = _parts(right)
        kept.append((left, right, parts, against))
        if names != others:
            return f"{_text(path)}: {names!r:.90} and {others!r:.90}"
        waiting += [
            ((path, names[at]), parts[at], against[at]) for at in range(len(names) - 1, -1, -1)
        ]
    return ""


def _text(path: _Path) -> str:
    names = []
    while path:
        path, name = path
        names.append(f".{name}" if isinstance(name, str) else f"{name!r:.40}")
    return "".join(reversed(names))


def _parts(value: object) -> tuple[list[object], list[object]]:
    """The names of the parts of an object, in order, and the parts. An item of a collection is named by a
    list with its place or its key."""
    names: list[object] = []
    parts: list[object] = []
    if isinstance(value, dict):
        for at, (key, item) in enumerate(value.items()):
            names += ["key", [key if isinstance(key, _PLAIN) else at]]
            parts += [key, item]
    elif isinstance(value, (list, tuple, deque)):
        names += [[at] for at in range(len(value))]
        parts += value
    elif isinstance(value, (set, frozenset)):
        names += [[at] for at in range(len(value))]
        parts += sorted(value, key=lambda item: (_name(item), repr(item)))
    if isinstance(value, deque):
        names.append("maxlen")
        parts.append(value.maxlen)
    if isinstance(value, MethodType):
        names += ["__func__", "__self__"]
        parts += [value.__func__, value.__self__]
    elif isinstance(value, partial):
        names += ["func", "args"]
        parts += [value.func, value.args]
    attributes = _KINDS[type(value)].slots
    if own := getattr(value, "__dict__", None):
        attributes = sorted({*attributes, *own})
    for name in attributes:
        if hasattr(value, name):
            names.append(name)
            parts.append(getattr(value, name))
    return names, parts


def _name(item: object) -> str:
    direction = getattr(item, "direction", None)  # sets of streams
    return "" if direction is None else str(direction)
