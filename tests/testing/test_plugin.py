"""The pytest plugin in the test run of a user's project."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.servers import require_server

pytestmark = pytest.mark.server

PASSES = """
def test_orders_are_stored(nats_server):
    with nats_server.connect() as nc:
        js = nc.jetstream()
        js.create_key_value("orders").put("1", b"teapot")

def test_the_next_one_begins_empty(nats_server):
    with nats_server.connect() as nc:
        assert list(nc.jetstream().streams()) == []
"""
CLUSTER = """
def test_a_cluster(nats_cluster):
    assert len(nats_cluster) == 3
    with nats_cluster.connect() as nc:
        nc.flush(10)
"""
FAILS = """
import pytest
from natsync.testing import NatsServer

@pytest.fixture
def own():
    with NatsServer(name="own") as server:
        yield server

def test_passes(nats_server):
    print("quiet")

def test_fails(nats_server, own):
    raise LookupError
"""
IDLE = """
import sys

def test_without_nats():
    assert "natsync" not in sys.modules
"""
# What a project does that wants other options for every test, or one server for all of them.
OWN = """
import pytest
from natsync.testing import NatsServer

@pytest.fixture(scope="session")
def nats_server():
    with NatsServer(token="s3cret", name="mine") as server:
        yield server

def test_first(nats_server):
    with nats_server.connect() as nc:
        nc.jetstream().create_key_value("kept")

def test_second(nats_server):
    with nats_server.connect() as nc:
        assert nats_server.name == nc.server_info.server_name == "mine"
        nc.jetstream().key_value("kept")
"""


def run(folder: Path, test: str, **environment: str) -> tuple[int, str]:
    """The status and the output of pytest in a project with one file of tests."""
    (folder / "test_orders.py").write_text(test)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "pytest_natsync.plugin", "-p", "no:cacheprovider"],
        cwd=folder,
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(ROOT),
            **environment,
        },
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/testing.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_examples_of_the_manual_pass(tmp_path: Path, number: int) -> None:
    require_server("current")
    status, output = run(tmp_path, EXAMPLES[number])
    assert status == 0 and "1 passed" in output, output


def test_each_test_has_a_server(tmp_path: Path) -> None:
    require_server("current")
    status, output = run(tmp_path, PASSES)
    assert status == 0 and "2 passed" in output, output
    assert "nats-server" not in output


def test_a_cluster_of_three(tmp_path: Path) -> None:
    require_server("current")
    status, output = run(tmp_path, CLUSTER)
    assert status == 0, output


def test_a_project_replaces_the_fixture(tmp_path: Path) -> None:
    require_server("current")
    status, output = run(tmp_path, OWN)
    assert status == 0, output


def test_a_failure_shows_the_logs(tmp_path: Path) -> None:
    require_server("current")
    status, output = run(tmp_path, FAILS)
    assert status == 1 and "1 failed, 1 passed" in output, output
    assert output.count("- log of nats-server nats -") == 1
    assert output.count("- log of nats-server own -") == 1
    assert "Server is ready" in output


def test_it_imports_nothing_for_those_who_do_not_ask(tmp_path: Path) -> None:
    status, output = run(tmp_path, IDLE)
    assert status == 0, output


def test_a_missing_server_is_an_error_that_names_the_remedy(tmp_path: Path) -> None:
    status, output = run(tmp_path, PASSES, NATS_SERVER=str(tmp_path / "none"))
    assert status == 1 and "2 errors" in output, output
    assert "NATS_SERVER names" in output
