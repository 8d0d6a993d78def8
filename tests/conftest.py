"""Loads the plugins of tests/support, lets SIGINT interrupt, and compares output with tests/golden."""

from __future__ import annotations

import difflib
import gc
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.requirements import in_ci

pytest_plugins = [
    "tests.support.leaks",
    "tests.support.servers",
    "tests.support.jetstream",
    "tests.support.gcs",
    "tests.support.s3",
    "tests.support.spark",
    "tests.support.streaming_servers",
    "tests.support.worker_processes",
    "tests.support.with_kernel",
    "tests.support.workers",
]

# How long an example takes says more about the machine than about the code.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="rewrite tests/golden with what the code says now, to be read in review",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update-goldens") and in_ci():
        raise pytest.UsageError("--update-goldens is refused under CI=true")
    # A shell may start background jobs with SIGINT ignored, `nohup` with SIGHUP, and children inherit that.
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is made here stays until the end, and is more than all else. To search it for garbage took a third
    of the time of collecting, and half a second with each `gc.collect` of a test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Names a long text after its parameter: ids of megabytes went between processes with each test."""
    return argname if isinstance(val, (str, bytes)) and len(val) > 100 else None


MEANT = (
    "If this change is meant: pytest --update-goldens, then read git diff, which users will see."
)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str | Path, str], None]:
    """A check: golden(name, text) fails with a diff unless tests/golden/<name>, or the file at an absolute
    path, holds `text`."""
    update = request.config.getoption("--update-goldens")

    def check(name: str | Path, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        if not path.exists():
            pytest.fail(f"no golden file {name}: make it with --update-goldens", pytrace=False)
        expected = path.read_text(encoding="utf-8")
        if text != expected:
            lines = difflib.unified_diff(
                expected.splitlines(), text.splitlines(), str(path), "now", lineterm=""
            )
            pytest.fail("\n".join([*lines, "", MEANT]), pytrace=False)

    return check
