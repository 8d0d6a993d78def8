"""CaptureError: one line that says which input, why, and what to do. `imported` and MissingLibrary."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from dissect.nats.errors import CaptureError, MissingLibrary, imported, instead
from natsync._extras import pip_install


def test_the_text_says_which_input_why_and_what_to_do() -> None:
    error = CaptureError("a.txt", "not a capture", "give pcap")
    assert str(error) == "a.txt: not a capture; give pcap"
    assert (error.path, error.reason, error.remedy) == ("a.txt", "not a capture", "give pcap")


def test_without_a_remedy_it_says_no_more() -> None:
    assert str(CaptureError("a.txt", "no such file")) == "a.txt: no such file"


def test_the_text_is_one_line_whatever_the_name() -> None:
    assert str(CaptureError("a\nb.txt", "no such file")) == "a b.txt: no such file"


def test_it_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(CaptureError("a", "b", "c")))
    assert (error.path, error.reason, error.remedy) == ("a", "b", "c")


def test_a_library_that_is_not_there_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.fs", None)
    with pytest.raises(MissingLibrary) as caught:
        imported("pyarrow.fs", "spark", "pyarrow")
    assert str(caught.value) == f"pyarrow is not installed; {pip_install('spark')}"


def test_a_library_whose_import_fails_shows_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyarrow beside a numpy that it was not built for, or a library that lacks one of its own."""
    faults = {
        "built_for_another": (
            "raise ImportError('numpy.core.multiarray failed\\nto import')",
            "numpy.core.multiarray failed to import",
        ),
        "lacks_its_own": ("import no_such_module", "No module named 'no_such_module'"),
    }
    monkeypatch.syspath_prepend(tmp_path)
    for name, (code, why) in faults.items():
        (tmp_path / f"{name}.py").write_text(code)
        with pytest.raises(MissingLibrary) as caught:
            imported(name, "sql")
        error = pickle.loads(pickle.dumps(caught.value))
        assert str(error) == f"{name} cannot be imported: {why}; {pip_install('sql')}"


def test_an_unknown_name_is_answered_with_a_close_one_or_with_all() -> None:
    assert instead("subjct", it=["subject", "reply"]) == "; is it 'subject'?"
    assert instead("x", frames=["op"], flows=["end"]) == "; frames has op; flows has end"
