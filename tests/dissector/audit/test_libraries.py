"""The libraries of audits and of the report, and their lack."""

from __future__ import annotations

import sys
from pathlib import Path

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


@pytest.mark.parametrize("library", ["jinja2", "plotly", "duckdb"])
def test_a_library_that_cannot_be_imported_shows_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: str
) -> None:
    (tmp_path / f"{library}.py").write_text("import one_of_its_own")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    result = CliRunner().invoke(cli, ["report", "-o", "page", "x"])
    assert result.exit_code == 2
    why = f"{library} cannot be imported: No module named 'one_of_its_own'"
    assert result.stderr.endswith(f": {why}; {pip_install('report')}\n")
