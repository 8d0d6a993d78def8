"""The manual of each package of natsync names everything that is public in it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = {
    "natsync.kv": "key-value.md",
    "natsync.micro": "services.md",
    "natsync.object_store": "object-store.md",
    "natsync.testing": "testing.md",
}


def documented(page: str) -> set[str]:
    """The words that stand in code, in prose or in examples."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return {
        word
        for code in re.findall(r"```.*?```|`[^`]+`", text, re.DOTALL)
        for word in re.findall(r"\w+", code)
    }


def public(package: str) -> set[str]:
    """Exported names, and the attributes of exported classes; of exceptions, the names alone."""
    module = importlib.import_module(package)
    names = set(module.__all__)
    for name in module.__all__:
        found = getattr(module, name)
        if isinstance(found, type) and not issubclass(found, Exception):
            names |= {attribute for attribute in vars(found) if attribute[0] != "_"}
    return names


@pytest.mark.parametrize("package", PAGES)
def test_every_name_is_documented(package: str) -> None:
    assert public(package) - documented(PAGES[package]) - INNER == set()


# For the other files of their package.
INNER = {"count_error", "handle", "listen", "of", "start"}
