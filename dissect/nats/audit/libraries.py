"""The libraries of the extra `audit`, which audits need: pySigma, DuckDB, pyarrow."""

from __future__ import annotations

from importlib import import_module

from ..errors import MissingLibrary

_LIBRARIES = {"sigma.rule": "pysigma", "duckdb": "duckdb", "pyarrow": "pyarrow"}


def check_libraries(extra: str = "audit") -> None:
    """Raises MissingLibrary, which names the `extra` to install, if one of them is not installed."""
    for module, library in _LIBRARIES.items():
        try:
            import_module(module)
        except ImportError:
            raise MissingLibrary(library, extra) from None
