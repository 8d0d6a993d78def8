"""Imports at the first use: what half a module, a missing one and any other error become."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from natsync._late import late_import
from natsync.errors import ReentrantCallError


def test_half_a_module_is_a_call_from_within_its_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "half_made", ModuleType("half_made"))
    with pytest.raises(ReentrantCallError, match="while the same thread .* imports") as caught:
        with late_import:
            from half_made import name  # type: ignore[import-not-found]  # noqa: F401  # made above
    assert isinstance(caught.value.__cause__, ImportError)


def test_a_missing_module_and_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ModuleNotFoundError), late_import:
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401  # that is the point
    with pytest.raises(ZeroDivisionError), late_import:
        1 / 0
