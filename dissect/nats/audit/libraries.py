"""The libraries of the extra `audit`, which audits need: pySigma, DuckDB, pyarrow."""

from __future__ import annotations

from ..errors import imported

_LIBRARIES = {"sigma.rule": "pysigma", "duckdb": "duckdb", "pyarrow": "pyarrow"}


def check_libraries(extra: str = "audit") -> None:
    """Raises MissingLibrary, which names the `extra` to install, if one of them is not installed."""
    for module, library in _LIBRARIES.items():
        imported(module, extra, library)
