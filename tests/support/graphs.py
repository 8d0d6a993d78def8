"""Whether two graphs of objects are alike: types, values, order, and which objects are the same one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from functools import partial
from types import FunctionType, MethodType

from dissect.nats.types import Chunk, Gap, Segment
from natsync.protocol import Context, Frame, Grammar, Limits

_PLAIN = (int, str, bytes, bytearray, float, bool, type(None), Enum, type, FunctionType)

# Nobody changes one that was handed on: it does not matter whether two are the same.
_VALUES = (Chunk, Gap, Segment, Frame, Context, Limits, tuple, frozenset)


def _is_value(item: object) -> bool:
    parameters = getattr(item, "__dataclass_params__", None)
    return isinstance(item, _VALUES) or bool(parameters and parameters.frozen)


def difference(one: object, other: object) -> str:
    """The path to the first thing that differs, and how; empty where nothing does."""
    pairs: dict[int, int] = {}
    back: dict[int, int] = {}
    kept = []  # so that no id is used again
    waiting: list[tuple[str, object, object]] = [("", one, other)]
    while waiting:
        path, left, right = waiting.pop()
        if left.__class__ is not right.__class__:
            return f"{path}: {type(left).__name__} and {type(right).__name__}"
        if isinstance(left, _PLAIN) or isinstance(left, Grammar):
            if left != right:
                return f"{path}: {left!r:.60} and {right!r:.60}"
            continue
        if not _is_value(left) and (id(left) in pairs or id(right) in back):
            if pairs.get(id(left)) != id(right) or back.get(id(right)) != id(left):
                return f"{path}: one is seen twice"
            continue
        if not _is_value(left):
            pairs[id(left)], back[id(right)] = id(right), id(left)
        kept.append((left, right))
        parts, others = list(_parts(left)), list(_parts(right))
        if [name for name, _ in parts] != [name for name, _ in others]:
            return f"{path}: {[n for n, _ in parts]!r:.90} and {[n for n, _ in others]!r:.90}"
        waiting += [
            (f"{path}{name}", value, against)
            for (name, value), (_, against) in zip(reversed(parts), reversed(others))
        ]
    return ""


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What an object consists of, in order."""
    if isinstance(value, dict):
        for at, (key, item) in enumerate(value.items()):
            yield f"[{at}]key", key
            yield f"[{key!r:.40}]" if isinstance(key, _PLAIN) else f"[{at}]", item
    elif isinstance(value, (list, tuple, deque)):
        for at, item in enumerate(value):
            yield f"[{at}]", item
    elif isinstance(value, (set, frozenset)):
        plain = sorted(value, key=lambda item: (_name(item), repr(item)))
        for at, item in enumerate(plain):
            yield f"{{{at}}}", item
    if isinstance(value, deque):
        yield ".maxlen", value.maxlen
    if isinstance(value, MethodType):
        yield ".__func__", value.__func__
        yield ".__self__", value.__self__
    elif isinstance(value, partial):
        yield ".func", value.func
        yield ".args", value.args
    slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
    for name in sorted({*slots, *getattr(value, "__dict__", ())}):
        if hasattr(value, name):
            yield f".{name}", getattr(value, name)


def _name(item: object) -> str:
    direction = getattr(item, "direction", None)  # sets of streams
    return "" if direction is None else str(direction)


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
