"""Arguments that commands share, and groups, whose modules are loaded when they are asked for."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from natsync.commands.arguments import count, header, seconds, whole
from natsync.commands.parser import GROUPS

from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (seconds, "0.5", 0.5),
        (count, "3", 3),
        (whole, "0", 0),
        (header, "Name: a:b", ("Name", "a:b")),
        (header, "Name:", ("Name", "")),
    ],
)
def test_good_arguments(read: type, text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [(seconds, "0"), (seconds, "inf"), (count, "0"), (count, "1.5"), (whole, "-1")]
    + [(header, "name"), (header, ":value")],
)
def test_bad_arguments(read: type, text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        read(text)


def test_a_group_is_loaded_when_it_is_asked_for() -> None:
    code = """if True:
        import sys
        from natsync.commands import make_parser
        make_parser("1").parse_args(["pub", "a"])
        assert "natsync.jetstream" not in sys.modules
        make_parser("1").parse_args("-s x stream ls --tls".split())
        assert "natsync.jetstream" in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_has_help(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    from natsync.commands import make_parser

    one = "pub" if group == "streaming" else "ls"
    for arguments in ([group, "--help"], [group, one, "--help"]):
        with pytest.raises(SystemExit) as caught:
            make_parser("1").parse_args(arguments)
        assert caught.value.code == 0
    assert "--server URL" in capsys.readouterr().out
