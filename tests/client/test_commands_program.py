"""What the command line takes and refuses, and what it imports."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from natsync.cli import main
from natsync.commands.program import LATE

from tests.support.paths import ROOT

Output = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    "arguments",
    [
        ["pub", "a", "--count", "1.5"],
        ["pub", "a", "--timeout", "nan"],
        ["pub", "a", "--timeout", "1e9"],
        ["request", "a", "--replies", "-1"],
        ["request", "a", "--json", "--raw"],
        ["sub", "a", "-H", "k:v"],
        ["bench", "reply"],
        ["pub", "a", "--tok", "x"],
    ],
)
def test_what_is_refused(arguments: list[str], capsys: Output) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert err.startswith("natsync: ") and err.endswith(f" See natsync {arguments[0]} --help\n")
    assert (out, err.count("\n")) == ("", 1)


def test_help_names_every_command(capsys: Output) -> None:
    main(["--help"])
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:2] == "  "]
    assert names[1:6] == ["pub", "request", "sub", "reply", "rtt"]
    assert names[6 : 6 + len(LATE)] == [*LATE]


def test_a_group_is_loaded_when_it_is_asked_for() -> None:
    code = """if True:
        import sys
        from natsync.cli import main
        for line in ("--help", "pub --help", "pub a -s nats://127.0.0.1:1"):
            main(line.split())
        assert not {name for name in sys.modules if name.startswith(("natsync.jetstream", "natsync.micro"))}
        main(["stream", "--help"])
        assert "natsync.jetstream" in sys.modules and "natsync.streaming" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_what_a_shell_completes() -> None:
    env = {**os.environ, "_NATSYNC_COMPLETE": "bash_complete", "COMP_CWORD": "2"}
    env |= {"COMP_WORDS": "natsync kv w"}
    done = subprocess.run(
        [sys.executable, "-m", "natsync"], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "plain,watch\n"
