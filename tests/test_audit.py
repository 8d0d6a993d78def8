"""The sample audit adds its rules to those of the package, and says in a line what it cannot do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from dissect.nats.audit import audit

from tests.support.paths import CAPTURES, ROOT

PROGRAM = ROOT / "samples" / "audit.py"
RULES = ROOT / "samples" / "audit"
NAMELESS = "client-without-name"


def run(*captures: str | Path, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PROGRAM, *captures],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=50,
    )


def test_it_prints_each_rule_that_found_something_once() -> None:
    done = run(CAPTURES / "core-2.15.1.pcap")
    assert (done.stderr, done.returncode) == ("", 1)
    assert done.stdout.startswith(
        "HIGH Service without an instance: 1\n"
        "  first: nobody.home\n"
        "  what to do: See whether the service runs, and whether the client may publish to it.\n"
        "  see: nats-dissect follow "
    )
    found = list(audit(CAPTURES / "core-2.15.1.pcap", rules=[RULES]))
    titles = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert len(titles) == len({one.rule for one in found}) > 1
    assert sum(int(line.rpartition(" ")[2]) for line in titles) == len(found)


def test_its_other_rule_finds_clients_without_a_name() -> None:
    found = list(audit(CAPTURES / "orders-2.15.1.pcap", rules=[RULES]))
    assert not [one for one in found if one.rule == NAMELESS]
    found = list(audit(CAPTURES / "streaming-2.15.1.pcap", rules=[RULES]))
    assert [one for one in found if one.rule == NAMELESS]


def test_it_says_in_a_line_what_is_wrong(tmp_path: Path) -> None:
    done = run()
    assert (done.stderr, done.returncode) == ("audit: usage: audit.py CAPTURE...\n", 2)
    page = tmp_path / "page.txt"
    page.write_text("no capture")
    done = run(page)
    assert done.stderr.startswith(f"audit: {page}: not a capture") and done.stderr.count("\n") == 1
    assert (done.stdout, done.returncode) == ("", 2)


def test_it_ends_quietly_when_its_reader_has_gone() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run(CAPTURES / "core-2.15.1.pcap", stdout=writer)
    os.close(writer)
    assert (done.stderr, done.returncode) == ("", 0)


def test_it_prints_its_usage() -> None:
    done = run("--help")
    assert (done.stdout, done.stderr, done.returncode) == (
        "audit: usage: audit.py CAPTURE...\n",
        "",
        0,
    )
