"""The pages build as a site without a dead link, and the README shows what the program prints."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli

from tests.support.paths import ROOT
from tests.support.pictures import PACKAGE, PICTURES, parts_of, structure, terminal, topology
from tests.support.requirements import missing

# Test suites of nats.go and nats.py.
OTHERS_TESTS = {"jetstream/test", "micro/test", "nats/tests", "nats-key-value/tests"}
LINKING = [*ROOT.glob("*.md"), *ROOT.glob("samples/*/README.md"), *ROOT.glob("docs/*.md")]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_site_builds_without_a_dead_link(tmp_path: Path) -> None:
    if subprocess.run([sys.executable, "-c", "import material"], capture_output=True).returncode:
        missing("mkdocs-material")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", site]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages == {page.parent.name for page in site.glob("*/index.html")}
    loaded = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']?(?:https?:)?//[^>]*")
    for page in site.rglob("*.html"):
        assert loaded.findall(page.read_text(encoding="utf-8")) == [], "it needs the network"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert set(re.findall(r"[\w-]+\.md", navigation)) == pages


def test_the_picture_of_the_dissector_shows_its_imports() -> None:
    drawn = PICTURES / "dissector.dot"
    assert drawn.read_text(encoding="utf-8") == structure(), "python -m tests.support.pictures"
    svg = drawn.with_suffix(".svg").read_text(encoding="utf-8")
    shown = set(re.findall(r">(\w+)</text>", svg))
    assert parts_of(PACKAGE) <= shown


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_paths_on_the_pages_for_developers_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:[\w.-]+/)+[\w.-]*|setup\.cfg|tables\.py)`", text)) - OTHERS_TESTS
    assert len(paths) > 10
    assert [each for each in paths if not (ROOT / each).exists() | (PACKAGE / each).exists()] == []


def test_the_tests_that_prove_a_promise_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## Which test proves what")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!promise|---)[^|]+ \| (.+) \|$", table, re.MULTILINE)
    assert len(rows) > 10
    for row in rows:
        path = None
        for named, test in re.findall(r"`([\w/.]*)(?:::(\w+))?`", row):
            path = ROOT / named if named else path
            assert path and path.exists(), row
            assert not test or f"\ndef {test}(" in path.read_text(encoding="utf-8"), test


def test_the_folders_of_the_dissector_are_listed() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tree = contributing.partition("## Where things are")[2].partition("\n## ")[0]
    assert folders <= set(re.findall(r"\b([a-z_]+)/", tree))
    architecture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = architecture.partition("| part |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) > 5
    for row in rows:
        part, *named = re.findall(r"`(\w+)`", row)
        assert set(named) <= {path.stem for path in (PACKAGE / part).iterdir()}, part


def test_the_picture_of_a_topology_shows_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    drawn = PICTURES / "topology.dot"
    assert drawn.read_text(encoding="utf-8") == topology(), "python -m tests.support.pictures"
    svg = drawn.with_suffix(".svg").read_text(encoding="utf-8")
    assert {"shop&#45;1", "gateway", "leafnode", "route"} <= set(
        re.findall(r">([^<]+)</text>", svg)
    )


def test_the_picture_of_a_terminal_shows_what_the_commands_print(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    texts = re.compile(r"<text[^>]*>([^<]*)</text>")
    shown = texts.findall((PICTURES / "incident.svg").read_text(encoding="utf-8"))
    assert shown == texts.findall(terminal()), "python -m tests.support.pictures"


def test_no_picture_needs_the_network() -> None:
    pictures = list(PICTURES.glob("*.svg"))
    assert pictures
    for picture in pictures:
        links = re.findall(r"https?://[^\"\s)]+", picture.read_text(encoding="utf-8"))
        assert [link for link in links if not link.startswith("http://www.w3.org/")] == []


def anchors_of(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_files_have_targets(page: Path) -> None:
    """Those of docs/ are checked where the site is built, too."""
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text)
    assert links or page != ROOT / "README.md"
    for path, anchor in links:
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors_of(target), f"{path}#{anchor}"


def test_the_readme_shows_what_the_program_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (block,) = re.findall(r"```console\n\$ (nats-dissect sessions .*?)```", README, re.DOTALL)
    command, *shown = block.splitlines()
    done = CliRunner().invoke(cli, shlex.split(command)[1:])
    printed = [line.rstrip() for line in done.output.splitlines()]
    assert [line for line in shown if line != "..." and line not in printed] == []
    assert len(shown) > 4


def test_the_first_install_of_the_readme_lets_its_commands_run() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    extras = setup["options.extras_require"]
    (first,) = re.findall(r"^\$ pip install '\.\[([\w,]+)\]'", README, re.MULTILINE)
    installed, wanted = set[str](), first.split(",")
    while wanted:
        name = wanted.pop()
        installed.add(name)
        for needed in extras[name].split():
            wanted += re.findall(r"\w+", needed.partition("[")[2])
            installed.add(needed.partition(">")[0])
    needs = {
        needed
        for extra in ("dissect", "parquet", "sql", "audit", "report", "fast")
        for needed in extras[extra].split()
    }
    assert {needed.partition(">")[0] for needed in needs if "[" not in needed} <= installed


def test_the_questions_of_the_readme_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    commands = re.findall(r"`nats-dissect ([^`]*FILES[^`]*)`", README)
    assert len(commands) > 8
    for command in commands:
        if command.startswith(("spark", "report")):
            continue  # tests/spark and test_commands_report run them
        words = shlex.split(command.replace(" ID ", " e6a8 "))
        words[words.index("FILES") :] = ["samples/captures/core-2.15.1.pcap"]
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.output


def test_the_plot_of_the_page_has_the_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    code, plot = block.rsplit(".plot(", 1)
    assert plot.count("\n") == 1
    *statements, series = code.splitlines()
    names: dict[str, Any] = {}
    exec("\n".join(statements), names)  # noqa: S102  # what the page tells users to run
    counts = eval(series, names)  # noqa: S307  # its last line, without the drawing
    assert counts.sum() == 342  # with the two that say that the sensors are done
