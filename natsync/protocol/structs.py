"""`Struct`: classes with fields and slots, declared like dataclasses, at a tenth of their cost.

`dataclasses` imports `inspect` and compiles up to six methods for each class: 28 of the 69 ms of CPU that
`import natsync` and the first `connect` of a process took (CPython 3.11). Here, only `__init__` is compiled
for each class; all share the other methods. The names are those of `dataclasses`, except that the options of
a class are given beside its base, as with `msgspec.Struct`:

    class Point(Struct, frozen=True):
        x: int
        y: int = field(default=0, repr=False)

Modules that define such classes need `from __future__ import annotations`. A class has exactly one base.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        """For type checkers: annotated names are the arguments."""
        return lambda cls: cls


__all__ = ["Field", "Struct", "dataclass_transform", "field"]

_S = TypeVar("_S", bound="Struct")
_T = TypeVar("_T")

REQUIRED: Any = type("Required", (), {})()
_OPTIONAL: Any = type("Optional", (), {})()


class Field:
    """A declared field: its annotation, its default or default factory, and whether `__init__` takes it and
    `repr` shows it."""

    __slots__ = ("annotation", "default", "factory", "init", "kw_only", "repr")

    def __init__(
        self, default: object, factory: Callable[[], object] | None, init: bool, repr: bool
    ) -> None:
        self.default = default
        self.factory = factory
        self.init = init
        self.repr = repr
        self.kw_only = False
        self.annotation = ""


def field(
    *,
    default: _T = REQUIRED,
    default_factory: Callable[[], _T] | None = None,
    init: bool = True,
    repr: bool = True,
) -> _T:
    """Declares a field with more than a default, like `dataclasses.field`."""
    made: Any = Field(default, default_factory, init, repr)
    return cast(_T, made)


@dataclass_transform(field_specifiers=(field,))
class StructType(type):
    """The metaclass, which makes slots and `__init__` from the annotations."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, object],
        *,
        frozen: bool = False,
        kw_only: bool = False,
    ) -> StructType:
        own: dict[str, Field] = {}
        annotations = cast("dict[str, str]", namespace.get("__annotations__", {}))
        for each, annotation in annotations.items():
            if annotation.startswith("ClassVar"):
                continue
            default = namespace.pop(each, REQUIRED)
            made = default if isinstance(default, Field) else Field(default, None, True, True)
            made.annotation, made.kw_only = annotation, kw_only
            own[each] = made
        declared = {**getattr(bases[0], "_declared", {}), **own} if bases else own
        arguments = {each: item for each, item in declared.items() if item.init}
        namespace.update(
            __slots__=tuple(own),
            _declared=declared,
            _fields=tuple(declared),
            _arguments=tuple(arguments),
            __match_args__=tuple(each for each, item in arguments.items() if not item.kw_only),
        )
        if frozen:
            namespace.update(_FROZEN)
        cls = super().__new__(mcs, name, bases, namespace)
        if own and "__init__" not in namespace:
            setattr(cls, "__init__", _write_init(cls, declared, frozen))
        return cls


class Struct(metaclass=StructType):
    """The base of all classes with fields. Instances are equal if their class and arguments are."""

    _declared: ClassVar[dict[str, Field]]
    _fields: ClassVar[tuple[str, ...]]
    _arguments: ClassVar[tuple[str, ...]]

    def replace(self: _S, **changes: object) -> _S:
        """Returns a copy with other values for these arguments."""
        arguments = {name: getattr(self, name) for name in self._arguments}
        return type(self)(**{**arguments, **changes})

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._arguments)

    def __repr__(self) -> str:
        shown = [
            f"{name}={getattr(self, name)!r}"
            for name, item in self._declared.items()
            if item.repr and item.init
        ]
        return f"{type(self).__qualname__}({', '.join(shown)})"


def _hash(self: Struct) -> int:
    return hash(tuple(getattr(self, name) for name in self._arguments))


def _refuse(self: Struct, name: str, *_: object) -> None:
    raise AttributeError(f"{type(self).__qualname__} is frozen: {name} cannot be set or deleted")


def _reduce(self: Struct) -> tuple[object, ...]:
    return _rebuild, (type(self), *(getattr(self, name) for name in self._fields))


def _rebuild(cls: type[Struct], *values: object) -> Struct:
    """Makes a frozen struct when it is unpickled or copied."""
    made: Struct = object.__new__(cls)
    for name, value in zip(cls._fields, values):
        object.__setattr__(made, name, value)
    return made


_FROZEN = {
    "__setattr__": _refuse,
    "__delattr__": _refuse,
    "__hash__": _hash,
    "__reduce__": _reduce,
}


def _write_init(cls: type, declared: dict[str, Field], frozen: bool) -> Callable[..., None]:
    """Writes `__init__` as `dataclasses` does: one assignment per field."""
    scope: dict[str, Any] = {
        "__name__": cls.__module__,
        "_optional": _OPTIONAL,
        "_set": object.__setattr__,
    }
    places: list[str] = []
    named: list[str] = []
    lines: list[str] = []
    for name, item in declared.items():
        value = name if item.init else f"_{name}"
        default = ""
        if item.factory:
            scope[f"_{name}"], default = item.factory, "=_optional"
            value = f"_{name}() if {name} is _optional else {name}" if item.init else f"_{name}()"
        elif item.default is not REQUIRED:
            scope[f"_{name}"], default = item.default, f"=_{name}"
        if item.init:
            (named if item.kw_only else places).append(name + default)
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    taken = ", ".join(["self", *places, *(["*", *named] if named else [])])
    # Compiled first: if Ctrl-C interrupts an `exec` of a string, CPython later exits by SIGINT, even if
    # the KeyboardInterrupt was handled.
    exec(compile(f"def __init__({taken}):\n " + "\n ".join(lines), "<struct>", "exec"), scope)
    made: Callable[..., None] = scope["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = {name: item.annotation for name, item in declared.items() if item.init}
    made.__annotations__["return"] = "None"
    return made
