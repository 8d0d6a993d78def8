"""Options that commands of JetStream share."""

from __future__ import annotations

import argparse

import pytest

import natsync
from natsync.commands.jetstream_options import add_force, add_jetstream, jetstream, need_force

from tests.support.servers import NatsServer


def read(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="natsync stream rm")
    add_force(add_jetstream(parser))
    return parser.parse_args(words)


@pytest.mark.server
@pytest.mark.parametrize(
    ("words", "prefix"),
    [
        ((), "$JS.API"),
        (("--domain", "hub"), "$JS.hub.API"),
        (("--api-prefix", "imported.js"), "imported.js"),
    ],
)
def test_which_jetstream(server: NatsServer, words: tuple[str, ...], prefix: str) -> None:
    args = read(*words)
    args.timeout = 1.0
    with natsync.connect(server.url) as nc:
        assert jetstream(nc, args).api.prefix == prefix


def test_not_two_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read("--domain", "hub", "--api-prefix", "imported.js")
    assert "not allowed with" in capsys.readouterr().err


def test_what_cannot_be_undone_wants_a_word() -> None:
    need_force(read("-f"), "deleting")
    with pytest.raises(natsync.OptionError, match="deleting cannot be undone: repeat it"):
        need_force(read(), "deleting")
