"""Values as Arrow holds them."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path

import pytest

from dissect.nats.errors import MissingLibrary
from dissect.nats.output.arrow.types import array, arrow_type, pyarrow, times, wire_texts
from dissect.nats.schema.declaration import Type

from tests.support.paths import CAPTURES, ROOT
from tests.support.requirements import missing

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))


def test_numbers_beyond_64_bits_become_the_nearest() -> None:
    assert array(Type.INTEGER, [1, 1 << 70, -(1 << 70), None]).to_pylist() == [
        1,
        (1 << 63) - 1,
        -(1 << 63),
        None,
    ]


def test_half_a_surrogate_pair_is_written_out() -> None:
    assert array(Type.TEXT, ["a\ud800", None]).to_pylist() == ["a\\ud800", None]


def test_times_have_microseconds() -> None:
    made = times(array(Type.INTEGER, [1_500_000_000_000_001_999, None]))
    assert made.type == arrow_type(Type.TIME)
    moment = datetime(2017, 7, 14, 2, 40, 0, 1, tzinfo=timezone.utc)
    assert made.to_pylist() == [moment, None]


def test_wire_bytes_are_texts_as_everywhere() -> None:
    assert wire_texts([b"a", "\xfc".encode(), None]).to_pylist() == ["a", "\xfc", None]
    assert wire_texts([b"a", b"\xff", None]).to_pylist() == ["a", "\\xff", None]
    assert wire_texts([]).type == arrow_type(Type.TEXT)


@pytest.mark.skipif(find_spec("pandas") is None, reason="needs pandas")
def test_pandas_is_left_out_until_it_is_needed() -> None:
    script = (
        "import sys\n"
        "from dissect.nats.output.arrow import types\n"
        "types.leave_pandas_out()\n"
        "made = types.array(types.Type.TEXT, ['a'])\n"
        "print('pandas' in sys.modules, len(types.pyarrow().table({'a': made}).to_pandas()))\n"
    )
    printed = subprocess.check_output([sys.executable, "-c", script], cwd=ROOT, text=True)
    assert printed == "False 1\n"


@pytest.mark.skipif(find_spec("pandas") is None, reason="needs pandas")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_no_process_of_the_command_line_imports_pandas(jobs: str, tmp_path: Path) -> None:
    options = ["--format", "parquet", "--output", str(tmp_path / "frames"), "--jobs", jobs]
    program = [sys.executable, "-X", "importtime", "-m", "dissect.nats", "frames", *options]
    ended = subprocess.run(
        [*program, str(CAPTURES / "core-2.15.1.pcap")], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    # Workers inherit the option, and a module that was not found is in the list, too.
    imported = [line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()]
    assert ended.returncode == 0
    assert imported.count("pyarrow.lib") == (1 if jobs == "1" else 3)
    assert "pandas.core.frame" not in imported
