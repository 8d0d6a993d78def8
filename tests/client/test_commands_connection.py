"""How a command connects: the command line before the environment, secrets out of sight, TLS."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from natsync.cli import main
from natsync.commands.connection import ENVIRONMENT
from natsync.protocol import ConnectOptions, ServerInfo

from tests.support.fake_server import INFO, Background, FakeServer
from tests.support.logins import ALICE, creds, user_jwt

SECRET = "s3cr3t"
Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT.values():
        monkeypatch.delenv(name, raising=False)


def connected_with(*options: str, info: ServerInfo = INFO) -> ConnectOptions:
    """What CONNECT says of who gives these options."""
    with FakeServer() as server:
        call = Background(lambda: main(["-s", server.url, *options, "rtt"]))
        peer = server.accept()
        connect = peer.greet(info)
        peer.expect_end()
        assert call.result() == 0
    return connect


def test_a_login_on_the_command_line_or_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = connected_with("--user", "ann", "--password", SECRET)
    assert (connect.user, connect.password, connect.name) == ("ann", SECRET, "natsync-cli")
    monkeypatch.setenv("NATS_USER", "bob")
    monkeypatch.setenv("NATS_PASSWORD", SECRET)
    connect = connected_with()
    assert (connect.user, connect.password) == ("bob", SECRET)
    connect = connected_with("--user", "ann")
    assert (connect.user, connect.password) == ("ann", SECRET)


def test_one_kind_of_login_excludes_the_environments_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NATS_USER", "bob")
    monkeypatch.setenv("NATS_PASSWORD", SECRET)
    connect = connected_with("--token", "t")
    assert (connect.user, connect.password, connect.auth_token) == ("", "", "t")


def test_options_may_stand_after_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer() as server:
        monkeypatch.setenv("NATS_URL", server.url)
        call = Background(lambda: main(["rtt", "--token", "t"]))
        peer = server.accept()
        assert peer.greet().auth_token == "t"
        peer.expect_end()
        assert call.result() == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--creds", "/no/such"], "--creds: file '/no/such': No such file or directory"),
        (["--nkey", "/no/such"], "--nkey: file '/no/such': No such file or directory"),
        (["--tls-ca", "/no/such"], "--tls-ca: '/no/such': No such file or directory"),
        (["--tls-key", "/no/such"], "--tls-key: needs cert_file"),
        (
            ["--http-proxy", f"http://u:{SECRET}@h/x"],
            "--http-proxy: the URL of a proxy has no path",
        ),
        (["--token", SECRET, "--user", "u"], "--token: excludes user and password"),
        (
            ["-s", f"http://u:{SECRET}@h"],
            "--server: unknown scheme 'http': use nats://, tls://, ws:// or wss://",
        ),
    ],
)
def test_what_is_wrong_is_reported_in_the_words_of_the_command_line(
    arguments: list[str], expected: str, capsys: Output
) -> None:
    with FakeServer() as server:  # which nobody calls
        assert main(["-s", server.url, *arguments, "rtt"]) == 2
    err = capsys.readouterr().err
    assert expected in err and err.count("\n") == 1 and SECRET not in err


def test_a_file_that_holds_no_seed(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "seed"
    file.write_text(f"# {SECRET}\nnothing")
    assert main(["--nkey", str(file), "rtt"]) == 2
    err = capsys.readouterr().err
    assert "holds no user's seed" in err and SECRET not in err


def test_a_seed_in_place_of_its_file_is_not_shown(capsys: Output) -> None:
    seed = "SU" + "A" * 56
    assert main(["--nkey", seed, "rtt"]) == 2
    err = capsys.readouterr().err
    assert "is a seed; name the file that holds it" in err and seed not in err


def test_files_that_sign(tmp_path: Path) -> None:
    seed, both = tmp_path / "seed", tmp_path / "creds"
    seed.write_text(f"# of alice\n{ALICE.seed}\n")
    both.write_text(creds(user_jwt(), ALICE.seed))
    connect = connected_with("--nkey", str(seed), info=INFO.replace(nonce="abc"))
    assert connect.nkey == ALICE.public and connect.sig
    connect = connected_with("--creds", str(both), info=INFO.replace(nonce="abc"))
    assert connect.jwt and connect.sig and not connect.nkey


def test_the_logger_is_as_it_was() -> None:
    before = list(logging.getLogger("natsync").handlers)
    connected_with()
    assert logging.getLogger("natsync").handlers == before
