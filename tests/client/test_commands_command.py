"""What all commands have: connection options on either side, `--json`, another JetStream; and their help."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click
import pytest

from natsync.cli import main
from natsync.commands import program
from natsync.commands.command import Command, Run
from natsync.commands.options import Option
from natsync.commands.reporting import Reporter

from tests.support.fake_server import Background, FakeServer
from tests.support.servers import NatsServer

Output = pytest.CaptureFixture[str]


def every_command() -> Iterator[tuple[str, Command]]:
    """The words that call each command, and the command."""
    context = click.Context(program, obj=Reporter())
    for name in program.list_commands(context):
        found = program.get_command(context, name)
        if isinstance(found, click.Group):
            for each, command in found.commands.items():
                assert isinstance(command, Command)
                yield f"{name} {each}", command
        else:
            assert isinstance(found, Command)
            yield name, found


@pytest.mark.server
@pytest.mark.parametrize(
    ("words", "prefix"),
    [
        ((), "$JS.API"),
        (("--domain", "hub"), "$JS.hub.API"),
        (("--api-prefix", "imported.js"), "imported.js"),
    ],
)
def test_domain_and_api_prefix_select_a_jetstream(
    server: NatsServer, words: tuple[str, ...], prefix: str
) -> None:
    found = []

    @click.command("js", cls=Command)
    def js(run: Run) -> None:
        found.append((run.js.api.prefix, run.timeout))

    context = click.Context(program, obj=Reporter())
    group = program.get_command(context, "stream")
    assert isinstance(group, click.Group)
    group.add_command(js)
    try:
        assert main(["-s", server.url, "stream", "js", *words, "--timeout", "1"]) == 0
    finally:
        del group.commands["js"]
    assert found == [(prefix, 1.0)]


@pytest.mark.parametrize(
    "line",
    [
        "stream ls --domain hub --api-prefix imported.js",
        "request a --json --raw",
        "kv watch b --updates-only --from-revision 3",
        "stream purge s --seq 3 --keep 3 -f",
        "streaming sub c --start new --since 3",
    ],
)
def test_not_two_of_them(line: str, capsys: Output) -> None:
    assert main(line.split()) == 2
    assert " excludes --" in capsys.readouterr().err


def test_what_cannot_be_undone_wants_a_word(capsys: Output) -> None:
    lines = ["stream rm s", "stream purge s", "stream rm-msg s 1", "stream remove-peer s p"]
    lines += ["consumer rm s c", "kv rm b", "object rm o", "object seal o"]
    for line in lines:
        assert main(line.split()) == 2
        err = capsys.readouterr().err
        assert err.startswith("natsync: --force: ") and err.endswith(
            " cannot be undone: repeat it with --force\n"
        )


def test_an_option_of_the_connection_stands_on_either_side() -> None:
    with FakeServer() as server:
        for words in (
            ["-s", server.url, "--token", "t", "rtt", "--json"],
            ["--token", "t", "rtt", "--json", "-s", server.url],
            ["-s", "nats://other", "--token", "no", "rtt", "--token", "t", "-s", server.url],
        ):
            call = Background(lambda: main(words))
            peer = server.accept()
            assert peer.greet().auth_token == "t"
            peer.expect_end()
            assert call.result() == 0


@pytest.mark.parametrize("data", ["-5", "-0.5", "-.5"])
def test_a_negative_number_is_an_argument(data: str) -> None:
    from natsync.protocol import HPub, Pub

    with FakeServer() as server:
        for words in (["pub", "a", data], ["pub", "a", "-H", "k:-1", "--", data]):
            call = Background(lambda: main([*words[:1], "-s", server.url, *words[1:]]))
            peer = server.accept()
            peer.greet()
            assert peer.expect(HPub if "-H" in words else Pub).payload == data.encode()
            peer.expect_end()
            assert call.result() == 0


def test_each_command_has_its_own_wait() -> None:
    waits = {
        name: next(each for each in command.params if each.name == "timeout").default
        for name, command in every_command()
    }
    listening = {"sub", "reply", "kv watch", "object watch", "streaming sub"}
    assert {name for name, wait in waits.items() if wait is None} == listening
    assert {wait for name, wait in waits.items() if name.startswith("service")} == {2.0}
    others = {wait for name, wait in waits.items() if not name.startswith("service")}
    assert others == {None, 5.0}


def test_every_option_has_help() -> None:
    fields = {"add", "edit", "copy"}  # of a configuration, whose names are the server's
    bare = [
        f"{name} {each.flag}"
        for name, command in every_command()
        for each in command.params
        if isinstance(each, Option) and not each.help and name.split()[-1] not in fields
    ]
    assert bare == []


def test_every_command_has_help(capsys: Output) -> None:
    for name, command in every_command():
        assert main([*name.split(), "--help-all"]) == 0
        usage, text, rest = capsys.readouterr().out.split("\n\n", 2)
        assert usage.startswith(f"Usage: natsync {name} [OPTIONS]") and text.endswith(".")
        assert "--server" not in usage and "--server URL" in rest
        assert all(len(line) <= 80 for line in rest.splitlines())
        for each in command.params:
            shown = usage + rest
            names = (*each.opts, each.human_readable_name, getattr(each, "brief", ""))
            assert any(name and name in shown for name in names) or name == "bench"


def test_a_group_has_help(capsys: Output) -> None:
    for group in ("stream", "consumer", "streaming", "kv", "object", "service"):
        assert main([group, "-h"]) == 0
        assert "--server URL" in capsys.readouterr().out
        assert main([group]) == 2
        assert capsys.readouterr().err == f"natsync: Missing command. See natsync {group} --help\n"


def test_json_is_one_line(capsys: Output) -> None:
    with FakeServer() as server:
        call = Background(lambda: main(["-s", server.url, "pub", "a", "b", "--json"]))
        peer = server.accept()
        peer.greet()
        peer.expect_end()
        assert call.result() == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"subject": "a", "published": 1, "data_bytes": 1}
