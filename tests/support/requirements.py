"""What becomes of a test that lacks something: skipped by name on a laptop, failed in CI.

A green run that tested nothing is a lie.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def in_ci() -> bool:
    """True where a skipped test would hide that nothing was tested."""
    return os.environ.get("CI", "").lower() == "true"


def missing(what: str, remedy: str) -> NoReturn:
    """Ends the calling test: `what` is not there, `remedy` says how to get it."""
    text = f"{what} is missing: {remedy}"
    if in_ci():
        pytest.fail(text, pytrace=False)
    pytest.skip(text, allow_module_level=True)
