"""The sample captures against expected output, which is read in review."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli

from tests.support.paths import CAPTURES

NAMES = sorted(path.name for path in CAPTURES.glob("*.pcap*"))

# All that there is to see, in small; the larger ones show in their sessions.
FRAMES = [
    "auth-2.15.1.pcap",
    "core-2.15.1.pcap",
    "damaged-loss-reorder.pcap",
    "gateway-2.15.1.pcap",
    "jetstream-2.15.1.pcap",
    "leafcluster-2.9.10.pcap",
    "leafnode-2.15.1.pcap",
    "midstream.pcap",
    "snap96.pcap",
]

# The start of a session's id, and where it is: with requests, with gaps, between servers, JetStream.
CONVERSATIONS = [
    ("7294", "core-2.15.1.pcap"),
    ("ad29", "core-2.15.1.pcap"),
    ("cb76", "snap96.pcap"),
    ("8646", "midstream.pcap"),
    ("ad54", "jetstream-2.15.1.pcap"),
]

JETSTREAM = ["api", "publishes", "deliveries", "pulls", "streams", "consumers"]
JETSTREAM += ["kv", "objects"]


def output(*args: str) -> str:
    done = CliRunner().invoke(cli, list(args))
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_sessions(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"sessions/{name}.jsonl", output("sessions", "--format", "jsonl", str(CAPTURES / name)))


@pytest.mark.parametrize("name", FRAMES)
def test_frames(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"frames/{name}.txt", output("frames", str(CAPTURES / name)))


@pytest.mark.parametrize("table", ["subscriptions", "requests", "anomalies", "flows", "servers"])
@pytest.mark.parametrize("name", NAMES)
def test_other_tables(table: str, name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{table}/{name}.txt", output(table, str(CAPTURES / name)))


@pytest.mark.parametrize("table", JETSTREAM)
@pytest.mark.parametrize(
    "name", ["jetstream-2.15.1.pcap", "orders-2.15.1.pcap", "stores-2.15.1.pcap"]
)
def test_jetstream(table: str, name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{table}/{name}.txt", output(table, str(CAPTURES / name)))


@pytest.mark.parametrize("table", ["streaming", "services"])
@pytest.mark.parametrize("name", ["streaming-2.15.1.pcap", "services-2.15.1.pcap"])
def test_other_protocols(table: str, name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{table}/{name}.txt", output(table, str(CAPTURES / name)))


@pytest.mark.parametrize("name", ["cluster-2.15.1.pcap", "leafcluster-2.15.1.pcap"])
def test_paths(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"paths/{name}.txt", output("paths", str(CAPTURES / name)))


@pytest.mark.parametrize("start, name", CONVERSATIONS)
def test_conversations(start: str, name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"follow/{start}.txt", output("follow", start, str(CAPTURES / name)))


def test_all_sessions_for_a_person(golden: Callable[[str, str], None]) -> None:
    golden("sessions.txt", output("sessions", str(CAPTURES)))


def test_what_is_in_the_files(golden: Callable[[str, str], None]) -> None:
    text = output("info", str(CAPTURES))
    golden("info.txt", text.replace(f"{CAPTURES}/", ""))
