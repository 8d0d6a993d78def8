"""Structs: arguments, equality and text as those of dataclasses, frozen ones, and their copies."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
from typing import ClassVar

import pytest

from natsync.protocol.structs import Struct, field


class Place(Struct):
    kind: ClassVar[str] = "a place"

    x: int
    y: int = 0
    seen: int = field(default=7, init=False)
    notes: list[str] = field(default_factory=list)


class Named(Place, kw_only=True):
    name: str = field(default="", repr=False)
    log: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.log.append(self.name)


class Fixed(Struct, frozen=True):
    x: int
    tags: tuple[str, ...] = field(default_factory=tuple)


class Renamed(Named):
    """Adds no field."""

    def __repr__(self) -> str:
        return "renamed"


def test_a_struct_takes_positional_and_named_arguments_with_defaults() -> None:
    place = Place(1, 2)
    assert (place.x, place.y, place.seen, place.notes) == (1, 2, 7, [])
    assert Place(1).notes is not Place(1).notes
    assert Named(1, notes=["a"], name="n").notes == ["a"]
    assert Named(1, name="n").log == ["n"]
    for wrong in (lambda: Place(), lambda: Place(1, seen=3), lambda: Named(1, 2, [], "n")):
        with pytest.raises(TypeError):
            wrong()


def test_the_signature_is_shown_by_help() -> None:
    assert str(inspect.signature(Fixed)).startswith("(x: 'int', tags: 'tuple[str, ...]' = ")
    assert [*inspect.signature(Named).parameters] == ["x", "y", "notes", "name"]
    assert Named.__init__.__module__ == __name__ in pydoc.render_doc(Named)


def test_equality_is_about_class_and_arguments() -> None:
    one, other = Place(1, 2), Place(1, 2)
    other.seen = 8
    assert one == other != Place(1, 3)
    assert one != (1, 2) and Named(1) != Place(1) and Named(1) == Named(1)
    with pytest.raises(TypeError):
        hash(one)


def test_text_leaves_out_what_is_hidden() -> None:
    assert repr(Named(1, name="secret")) == "Named(x=1, y=0, notes=[])"
    assert repr(Renamed(1)) == "renamed"


def test_patterns_match_positions() -> None:
    match Named(1, 2):
        case Place(x, y):
            assert (x, y) == (1, 2)
    assert Named.__match_args__ == ("x", "y", "notes")


def test_there_is_no_room_for_typing_errors() -> None:
    with pytest.raises(AttributeError):
        setattr(Place(1), "z", 1)
    assert not hasattr(Place(1), "__dict__")


def test_a_copy_with_other_values() -> None:
    named = Named(1, 2, name="n")
    assert named.replace(x=5, name="m") == Named(5, 2, name="m")
    with pytest.raises(TypeError):
        named.replace(z=1)


def test_frozen_ones_cannot_be_changed() -> None:
    fixed = Fixed(1)
    for change in (lambda: setattr(fixed, "x", 2), lambda: delattr(fixed, "x")):
        with pytest.raises(AttributeError, match="Fixed is frozen: x cannot be set or deleted"):
            change()
    assert fixed.x == 1 and {fixed: 1}[Fixed(1, ())] == 1


@pytest.mark.parametrize("made", [Place(1, 2, ["a"]), Named(3, name="n"), Fixed(1, ("t",))])
def test_copies_and_pickles(made: Struct) -> None:
    for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert again == made and type(again) is type(made)
