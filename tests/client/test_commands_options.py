"""Options and arguments as the commands declare them."""

from __future__ import annotations

import click
import pytest

from natsync.commands.options import Argument, Option, count_option, force_option, header_option
from natsync.errors import OptionError


def call(decorate: object, *words: str) -> dict[str, object]:
    """What click makes of the words for a command with one option."""
    assert callable(decorate)
    command = click.command()(decorate(lambda **options: options))
    found: dict[str, object] = command.main(words, standalone_mode=False)
    return found


def test_an_option_on_a_line_of_many() -> None:
    for declared, brief in (
        (Option(["-m --max-msgs N"]), "--max-msgs N"),
        (Option(["--allow-direct/--no-allow-direct"], default=None), "--[no-]allow-direct"),
        (Option(["--storage"], type=click.Choice(["file", "memory"])), "--storage [file|memory]"),
    ):
        assert declared.brief == brief


def test_an_argument_explains_itself() -> None:
    assert Argument(["seq"], help="The sequence.").explanation == "The sequence."


def test_headers_are_repeated() -> None:
    found = call(header_option, "-H", "a:1", "--header", "a: 2", "-Hb:3:4")
    assert found == {"headers": (("a", "1"), ("a", "2"), ("b", "3:4"))}
    with pytest.raises(click.BadParameter, match="NAME:VALUE"):
        call(header_option, "-H", "none")


def test_count_has_a_default_and_takes_a_number() -> None:
    assert call(count_option("N", 3)) == {"count": 3}
    assert call(count_option("N"), "--count", "7") == {"count": 7}


def test_force_is_needed_for_what_cannot_be_undone() -> None:
    assert call(force_option("deleting"), "-f") == call(force_option("deleting"), "--force") == {}
    with pytest.raises(OptionError, match="deleting cannot be undone: repeat it with --force"):
        call(force_option("deleting"))
