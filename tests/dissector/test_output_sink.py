"""Where output goes, and what may end it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.errors import CaptureError
from dissect.nats.output.sink import Fault, Sink, say


def test_a_file_keeps_what_it_has_until_it_is_cleared(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("dear diary")
    outlet = Sink(str(path), ())
    with pytest.raises(Fault, match="a.pcap: no such file"), outlet.open():
        raise CaptureError("a.pcap", "no such file")
    assert path.read_text() == "dear diary"
    with outlet.open() as output:
        outlet.clear(output)
        output.write("a\n")
    assert path.read_bytes() == b"a\n"


def test_a_capture_is_no_output(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(b"x")
    with pytest.raises(Fault, match="stays as it is"), Sink(str(path), (str(path),)).open():
        pass
    assert path.read_bytes() == b"x"


def test_an_output_that_cannot_be_opened(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "where"):
        with pytest.raises(Fault, match="cannot be written: ") as raised:
            with Sink(str(path), ()).open():
                pass
        assert raised.value.exit_code == 2


def test_an_interruption_has_its_status() -> None:
    with pytest.raises(SystemExit) as raised, Sink(None, ()).open():
        raise KeyboardInterrupt
    assert raised.value.code == 130


def test_what_is_said_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\nb\x1b[2J")
    assert capsys.readouterr() == ("", "nats-dissect: a b\\x1b[2J\n")
    say("\udcff.pcap")
    assert capsys.readouterr() == ("", "nats-dissect: \\xff.pcap\n")
