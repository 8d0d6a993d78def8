"""Small files, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.errors import DissectError, MissingLibrary, SparkError
from dissect.nats.output.arrow.types import pyarrow
from dissect.nats.spark.structured_streaming.state_store import StateStore

from tests.support.requirements import missing

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_files_by_name(scheme: str, tmp_path: Path) -> None:
    store = StateStore(f"{scheme}{tmp_path}/a/b")
    assert (store.names(), store.read("x")) == ([], None)
    for name, content in {"y": b"1", "x": b"2"}.items():
        store.write(name, content)
    store.write("x", b"3")
    assert (store.names(), store.read("x"), store.read("y")) == (["x", "y"], b"3", b"1")
    store.delete("x")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["y"]


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = StateStore(str(tmp_path / "file"))
    with pytest.raises(
        SparkError, match="the folder of states cannot be written: .*; name one that"
    ):
        store.write("x", b"")
    with pytest.raises(SparkError, match="cannot be written"):
        StateStore(str(tmp_path)).delete("nothing")
    with pytest.raises(DissectError, match="cannot be reached"):
        StateStore("nosuch://x/y")
