"""`pytest --kernel`: tests read captures with the kernel, whatever their size. Blocks are small, since the
kernel begins with the second block of a capture, and the samples are smaller than a usual one. Processes that
tests start have usual blocks.
"""

from __future__ import annotations

import os

import pytest

from dissect.nats.capture import reader
from dissect.nats.kernel import driver
from dissect.nats.kernel.load import VARIABLE

_BLOCK = 2000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kernel", action="store_true", help="read captures with the kernel")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--kernel"):
        os.environ[VARIABLE] = "on"
        reader.BLOCK = _BLOCK
        driver._SHORT = 0
