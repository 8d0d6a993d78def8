"""With several workers (pytest-xdist): which of them runs a test, in which order the tests begin, and what
the workers share.

One worker runs all tests of a file, because another would start the server of the file, and parse its
captures, once more. A file whose tests share something with those of others names a group instead.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

# Groups that take longer than 15 s, the longest first: begun last, one of them would run while all other
# workers are idle. `--no-loadscope-reorder` keeps this order.
LONGEST: tuple[str, ...] = (
    "spark",
    "tests/live/test_cluster_rolling.py",
    "browser",
    "kernel",
    "tests/live/test_faults_network.py",
    "tests/spark/tasks/test_stages.py",
    "tests/live/test_faults_reentrant.py",
    "tests/dissector/parallel/test_pool.py",
    "tests/dissector/partition/test_advance_traffic.py",
    "tests/live/test_faults_threads.py",
    "tests/protocol/test_properties.py",
    "tests/live/test_faults_interrupts.py",
    "tests/dissector/transport/tls/test_decrypted.py",
    "tests/dissector/audit/test_command.py",
    "tests/dissector/output/test_duckdb.py",
    "tests/dissector/engine/test_session_tables.py",
    "tests/dissector/partition/test_checkpoint.py",
    "tests/dissector/commands/test_sql.py",
    "tests/spark/test_submit.py",
    "tests/dissector/samples/test_files.py",
    "tests/dissector/framing/test_sums.py",
    "tests/jetstream/test_reader.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Imports the files of tests, each worker beginning elsewhere. What is imported first pytest compiles in
    its own way, which takes longer than all else of collecting: so each worker finds most of it compiled by
    the others, instead of compiling all of it at the same time as they do."""
    if not (worker := getattr(session.config, "workerinput", None)):
        return
    files = _files(session.config)
    begin = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in files[begin:] + files[:begin]:
        # Whatever is wrong with a file is reported when it is collected.
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(path.relative_to(session.config.rootpath).with_suffix("").parts))


def _files(config: pytest.Config) -> list[Path]:
    """The files that will be collected."""
    ignored = {Path(path).resolve() for path in config.getoption("ignore") or ()}
    found: list[Path] = []
    for argument in config.args:
        path = Path(argument.partition("::")[0]).resolve()
        found += sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
    return [path for path in found if path not in ignored]


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(
    report: pytest.TestReport | pytest.CollectReport,
) -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
    """Leaves out the keywords of tests that passed: nobody asks for them, and they were most of what workers
    sent."""
    data = yield
    if data is not None and report.passed:
        data["keywords"] = {}
    return data


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Puts each test into a group, before pytest-xdist looks for groups in the same hook, and orders the
    groups, after all other plugins have ordered tests."""
    if not hasattr(config, "workerinput"):
        return (yield)
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))  # another would start a second Java
        elif item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    result = yield
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(_group(item), len(ranks)))
    return result


def _group(item: pytest.Item) -> str:
    marker = item.get_closest_marker("xdist_group")
    return str(marker.args[0]) if marker else ""
