"""The Python functions: how captures are named, and the same rows as objects, Arrow tables and DataFrames."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dissect.nats import CaptureError, CaptureReport, Options, frames, records, sessions, table
from dissect.nats.errors import MissingLibrary
from dissect.nats.pipeline import records as unwrapped

from tests.support.arrow_rows import records_of
from tests.support.paths import CAPTURES
from tests.support.requirements import missing

CORE = CAPTURES / "core-2.15.1.pcap"
AUTH = CAPTURES / "auth-2.15.1.pcap"

try:
    import pandas  # noqa: F401  # whether it is there
    import pyarrow  # noqa: F401  # whether it is there
except ImportError as lack:
    missing("pandas or pyarrow", str(lack))


def test_a_capture_is_named_by_a_text_or_a_path() -> None:
    expected = list(unwrapped([str(CORE)], ["sessions"]))
    assert len(expected) == 7
    raw = os.fsencode(CORE)
    for paths in (str(CORE), CORE, [str(CORE)], [CORE], (path for path in [CORE]), raw, [raw]):
        assert list(sessions(paths)) == expected
        assert len(list(sessions([AUTH, str(CORE)]))) == 14


def test_one_that_is_missing_is_named() -> None:
    with pytest.raises(CaptureError, match="nowhere.pcap: no such file"):
        next(iter(sessions("nowhere.pcap")))


@pytest.mark.parametrize("path", ["a\0b", b"a\0b", "a\0/*", ["\0", "nowhere.pcap"]])
def test_a_name_that_no_file_can_have(path: str | bytes | list[str]) -> None:
    for options in (Options(), Options(from_time="1", separate=True)):
        with pytest.raises(CaptureError, match="\0.*: no file has such a name"):
            list(sessions(path, options))


def test_several_tables_in_one_pass() -> None:
    found = {type(row).__name__ for row in records(CORE, ["sessions", "flows"])}
    assert found == {"SessionRecord", "FlowRecord"}


def test_any_table_by_its_name() -> None:
    assert list(table(CORE, "sessions")) == list(sessions(CORE))
    kv = CAPTURES / "stores-2.15.1.pcap"
    found = list(table(kv, "kv"))
    assert found == list(records(kv, ["kv"])) and found
    assert list(table(kv, "kv").to_pandas()["bucket"]) == [getattr(row, "bucket") for row in found]
    with pytest.raises(ValueError, match="^'messages' is not a table; tables are frames, "):
        table(CORE, "messages")


def test_help_says_what_the_arguments_mean() -> None:
    text = frames.__doc__ or ""
    assert text.startswith(
        "List protocol operations, in time order.\n\nThe records, in order of time;"
    )
    assert "Raises CaptureError" in text


def test_one_table_may_be_a_text_and_an_unknown_one_names_those_that_there_are() -> None:
    assert list(records(CORE, "sessions")) == list(sessions(CORE))
    assert list(records(CORE, iter(["sessions"]))) == list(sessions(CORE))
    for wrong in ("messages", ["sessions", "messages"]):
        with pytest.raises(
            ValueError, match="^'messages' is not a table; tables are frames, sessions, "
        ):
            records(CORE, wrong)
    with pytest.raises(ValueError, match=r"^\['sessions'\] is not a table; tables are frames, "):
        table(CORE, ["sessions"])  # type: ignore[arg-type]  # a wrong call


def test_rows_as_an_arrow_table() -> None:
    table = frames(CORE).to_arrow()
    rows = [row for part in table.to_batches() for row in records_of("frames", part)]
    assert rows == list(frames(CORE))
    with frames(CORE) as some:
        begun = [next(some), next(some)]
        assert some.to_arrow() == table.slice(len(begun))
    assert frames(CORE, live=True).to_arrow().num_rows == table.num_rows
    nothing = frames(CAPTURES / "http.pcap").to_arrow()
    assert nothing.num_rows == 0 and nothing.schema.names == table.schema.names


def test_rows_as_a_dataframe() -> None:
    data = sessions(CORE).to_pandas()
    assert list(data["client_name"].dropna())[:1] == ["warehouse"] and len(data) == 7
    assert str(data["time"].dt.tz) == "UTC"


def test_pandas_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingLibrary, match="pandas is not installed"):
        sessions(CORE).to_pandas()


def test_stopping_early_closes_the_captures() -> None:
    with frames(CORE) as rows:
        assert next(rows).op == "INFO"
    assert list(rows) == []


def test_payloads_as_a_text() -> None:
    options = Options(payload="text")
    assert any(row.payload for row in frames(CORE, options))
    with pytest.raises(ValueError, match="'loud'"):
        Options(payload="loud")


def test_times_and_kinds_as_texts() -> None:
    every = list(frames(CORE))
    early = list(frames(CORE, Options(until_time="0.5")))
    assert 0 < len(early) < len(every) and early == every[: len(early)]
    assert list(frames(CORE, Options(kind=["route"]))) == []
    with pytest.raises(ValueError, match="must be a time"):
        Options(from_time="yesterday")


def test_captures_that_are_timelines_of_their_own(tmp_path: Path) -> None:
    """The same capture twice: one timeline has everything once more on the same flows, two have it twice."""
    for name in ("a.pcap", "b.pcap"):
        (tmp_path / name).write_bytes(CORE.read_bytes())
    alone = [row.messages_originator for row in sessions(CORE)]
    both = sessions(tmp_path, Options(separate=True))
    assert [row.messages_originator for row in both] == alone * 2
    assert [row.messages_originator for row in sessions(tmp_path)] != alone * 2


@pytest.mark.parametrize("paths", [[], (), iter(())])
def test_no_capture_at_all_is_an_error_of_its_own(paths: Iterable[str]) -> None:
    with pytest.raises(ValueError, match="^no capture is named$"):
        frames(paths)


def test_an_empty_text_is_no_file() -> None:
    with pytest.raises(CaptureError, match="^'': no such file$"):
        next(frames(""))


def test_arguments_of_another_type_are_named() -> None:
    with open(CORE, "rb") as file:
        for wrong, kind in ((file, "BufferedReader"), (3, "int"), (None, "NoneType")):
            with pytest.raises(TypeError, match=f"^paths must be paths of captures, not {kind}$"):
                frames(wrong)  # type: ignore[arg-type]  # a wrong call
    for call in (frames, lambda *names: records(*names[:1], "kv", *names[1:])):
        with pytest.raises(TypeError, match="^options must be Options, not dict$"):
            call(CORE, {"payload": "text"})


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"report": []}, "report must be a CaptureReport, not list"),
        ({"report": CaptureReport}, "report must be a CaptureReport, not type"),
        ({"live": "no"}, "live must be True or False, not 'no'"),
        ({"live": None}, "live must be True or False, not None"),
    ],
)
def test_a_wrong_report_or_live_is_refused_by_the_call(wrong: dict[str, Any], text: str) -> None:
    for call in (frames, partial(records, tables="kv"), partial(table, name="kv")):
        with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
            call(CORE, **wrong)


@pytest.mark.parametrize("wrong", [None, 3, b"kv", Path("kv")])
def test_tables_are_named_by_texts(wrong: Any) -> None:
    with pytest.raises(TypeError, match="^tables must be names of tables, not "):
        records(CORE, wrong)
