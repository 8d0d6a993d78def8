"""What the command line takes and refuses."""

from __future__ import annotations

import pytest

from natsync.commands import make_parser

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
    with pytest.raises(SystemExit) as caught:
        make_parser("1").parse_args(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("natsync")


def test_an_option_of_the_connection_stands_on_either_side() -> None:
    parser = make_parser("1")
    for line in ("--server h --tls rtt", "rtt -s h --tls", "-s other rtt -s h --tls"):
        args = parser.parse_args(line.split())
        assert (args.server, args.tls, args.tls_first, args.user) == ("h", True, False, None)


def test_help_tells_the_exit_status_and_the_environment(capsys: Output) -> None:
    for line in ("--help", "pub --help", "bench --help"):
        with pytest.raises(SystemExit) as caught:
            make_parser("1").parse_args(line.split())
        assert caught.value.code == 0
    printed = capsys.readouterr().out
    assert "130  interrupted" in printed and "NATS_PASSWORD" in printed
