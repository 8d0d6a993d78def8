"""The manual tells of every public name of streams, publishing and errors, and the sample runs as it
stands."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import natsync.jetstream
from natsync.jetstream import (
    AtomicBatch,
    ConsumeContext,
    Consumer,
    FastBatch,
    JetStream,
    JetStreamMsg,
    MessageBatch,
    Messages,
    MsgMetadata,
    OrderedConsumer,
    OrderedMessages,
    PushConsumer,
    PushMessages,
    Stream,
    configs,
    errors,
    infos,
    reader_errors,
)
from natsync.jetstream.publishing import PublishOptions
from natsync.jetstream.pull_requests import PullOptions

from tests.support.paths import ROOT
from tests.support.servers import NatsServer

MANUAL = (ROOT / "docs/jetstream.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", MANUAL, flags=re.MULTILINE | re.DOTALL)
DOCUMENTED = {word for code in re.findall(r"`([^`]+)`", PROSE) for word in re.findall(r"\w+", code)}
ALIASES = {name for name in configs.__all__ if not inspect.isclass(getattr(configs, name))}


def test_every_class_is_documented() -> None:
    for module in (configs, reader_errors, errors, infos):
        public = {*module.__all__} - ALIASES - {"api_error"}
        assert public - DOCUMENTED == set(), module.__name__
        assert public <= {*natsync.jetstream.__all__}


READERS = [Consumer, Messages, MessageBatch, ConsumeContext, JetStreamMsg, MsgMetadata]
READERS += [OrderedConsumer, OrderedMessages, PushConsumer, PushMessages]


@pytest.mark.parametrize("kind", [JetStream, Stream, AtomicBatch, FastBatch, *READERS])
def test_every_method_is_documented(kind: type) -> None:
    elsewhere = "key_value object_store"  # chapters of their own
    assert kind.__name__ in DOCUMENTED
    public = {
        name
        for name in vars(kind)
        if not name.startswith("_") and not any(word in name for word in elsewhere.split())
    }
    assert public - DOCUMENTED == set()


def test_every_option_and_field_is_documented() -> None:
    for options in (PublishOptions, PullOptions):
        assert set(options.__annotations__) - DOCUMENTED == set()
    for config in (configs.StreamConfig, configs.ConsumerConfig):
        documented_in = {item.name for item in fields(config)} - {"extra", "_exact"}
        assert (
            documented_in - DOCUMENTED - {"direct", "sourcing"} == set()
        )  # which only servers set


def test_every_err_code_is_documented() -> None:
    table = MANUAL[MANUAL.index("| err_code |") :]
    numbers = {number for kind in errors._KINDS.values() for number in kind}
    documented: set[int] = set()
    for first, last in re.findall(r"(\d{5})(?: to (\d{5}))?", table):
        documented |= {*range(int(first), int(last or first) + 1)}
    assert numbers <= documented


@pytest.mark.server
def test_the_sample(js_server: NatsServer) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "samples/jetstream.py"],
        env={**os.environ, "NATS_URL": js_server.url, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.splitlines() == [
        "1 False",
        "1 True",
        "True 101",
        "3",
        "101",
        "3",
        "{'sample.orders.new': 101, 'sample.orders.paid': 3}",
    ]


@pytest.mark.server
def test_the_commands_for_streams_work_as_shown(js_server: NatsServer, tmp_path: Path) -> None:
    block = MANUAL.partition("## Command line")[2].partition("```console\n")[2].partition("```")[0]
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ natsync stream ")]
    assert len(commands) == 4
    commands.insert(1, "natsync pub orders.new 'two teapots'")
    natsync = f'natsync() {{ {sys.executable} -m natsync "$@"; }}'
    config = "import json, sys; print(json.dumps(json.load(sys.stdin)['config']))"
    jq = (
        f'jq() {{ {sys.executable} -c "{config}"; }}'  # as `jq .config`, which may not be installed
    )
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", f"{natsync}\n{jq}\n{command}"],
            env={**os.environ, "NATS_URL": js_server.url, "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert (done.stderr, done.returncode) == ("", 0), command
