"""The libraries of audits, and their lack."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from dissect.nats.audit.libraries import check_libraries
from dissect.nats.cli import cli
from dissect.nats.errors import MissingLibrary
from natsync._extras import pip_install


@pytest.mark.parametrize(
    ("module", "library"), [("sigma.rule", "pysigma"), ("duckdb", "duckdb"), ("pyarrow", "pyarrow")]
)
def test_a_missing_library_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, library: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingLibrary, match=rf"{library} is not .*\[audit\]'"):
        check_libraries()
    for command, extra in (["audit", "--list"], "audit"), (["report", "-o", "page", "x"], "report"):
        result = CliRunner().invoke(cli, command)
        assert result.exit_code == 2
        assert result.stderr.endswith(f": {library} is not installed; {pip_install(extra)}\n")
        assert result.stderr.count("\n") == 1
