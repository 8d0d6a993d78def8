"""With several workers (pytest-xdist): which of them runs a test, and in which order the tests begin.

One worker runs all tests of a file, because another would start the server of the file, and parse its
captures, once more. A file whose tests share something with those of others names a group instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

# Groups that take longer than 15 s, the longest first: begun last, one of them would run while all other
# workers are idle. `--no-loadscope-reorder` keeps this order.
LONGEST: tuple[str, ...] = (
    "spark",
    "tests/live/test_cluster_rolling.py",
    "browser",
    "tests/dissector/parallel/test_pool.py",
    "tests/spark/tasks/test_stages.py",
    "tests/live/test_faults_network.py",
    "tests/spark/tasks/test_application.py",
    "tests/test_spark_questions.py",
    "tests/dissector/partition/test_advance_traffic.py",
    "tests/live/test_faults_interrupts.py",
    "tests/dissector/audit/test_command.py",
    "tests/dissector/engine/test_memory.py",
    "tests/live/test_faults_reentrant.py",
    "tests/dissector/audit/test_pack.py",
    "tests/dissector/report/test_command.py",
)


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
