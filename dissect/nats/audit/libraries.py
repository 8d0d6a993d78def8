"""The libraries of audits: pySigma, DuckDB, pyarrow. The report also needs Jinja and Plotly."""

from __future__ import annotations

from ..errors import imported

_OF_AUDITS = {"sigma.rule": "pysigma", "duckdb": "duckdb", "pyarrow": "pyarrow"}
_LIBRARIES = {"audit": _OF_AUDITS, "report": {**_OF_AUDITS, "jinja2": "jinja2", "plotly": "plotly"}}


def check_libraries(extra: str = "audit") -> None:
    """Raises MissingLibrary, which names the `extra` to install, if one of its libraries is not installed, or
    cannot be imported."""
    for module, library in _LIBRARIES[extra].items():
        imported(module, extra, library)
