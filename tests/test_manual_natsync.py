"""The client's manual names everything that is public in the client, and nothing that is not."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import natsync
from natsync.cli import main

DOCS = Path(__file__).resolve().parent.parent / "docs"
CLIENT = "\n".join(
    (DOCS / page).read_text(encoding="utf-8") for page in ("natsync.md", "natsync-cli.md")
)
PROSE = re.sub(r"^```.*?^```$", "", CLIENT, flags=re.MULTILINE | re.DOTALL)
# Every word in code: `connect(servers)` tells of both.
DOCUMENTED = {word for code in re.findall(r"`([^`]+)`", PROSE) for word in re.findall(r"\w+", code)}
# For the parts of natsync that use them.
INNER = {
    "inherit",
    "sid",
    "wire_subject",
    "wire_queue",
    "received_before",
    "handle",
    "handled",
    "wait_idle",
    "is_full",
    "deliver",
    "limit",
    "renew",
    "expect",
    "refuse",
    "end",
    "abandon",
}


def test_every_name_is_documented() -> None:
    assert {*natsync.__all__} - DOCUMENTED == set()


def test_every_option_of_connect_is_documented() -> None:
    table = CLIENT[CLIENT.index("| option |") : CLIENT.index("## Client")]
    documented = set(
        re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE)))
    )
    options = set(inspect.signature(natsync.connect).parameters) - {"servers"}
    assert documented == options


@pytest.mark.parametrize(
    "kind", [natsync.Client, natsync.Subscription, natsync.Msg, natsync.Headers]
)
def test_every_method_is_documented(kind: type) -> None:
    assert {name for name in vars(kind) if name[0] != "_"} - INNER - DOCUMENTED == set()


def test_every_option_of_tls_is_documented() -> None:
    assert {*natsync.TLS._fields} - DOCUMENTED == set()


@pytest.mark.parametrize("command", "pub sub request reply rtt bench".split())
def test_every_option_of_the_command_line_is_documented(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help-all"]) == 0
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help", "--help-all"}
    assert {option for option in options if option not in CLIENT} == set()


def test_defaults_in_signatures_are_as_documented() -> None:
    for call, documented in (
        (natsync.Client.flush, "flush(timeout=10)"),
        (natsync.Client.drain, "drain(timeout=30)"),
        (natsync.Client.close, "close(timeout=5)"),
        (natsync.Client.publish_confirmed, "publish_confirmed(..., timeout=10)"),
    ):
        default = inspect.signature(call).parameters["timeout"].default
        assert documented in CLIENT and f"timeout={default:g})" in documented
