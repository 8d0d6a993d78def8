"""What Java prints: kept in a file, and lines of this package shown."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from dissect.nats.spark.launch.java_output import lines_shown, log_bytes, save_log


def test_lines_of_this_package_are_shown_once_and_the_rest_is_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with TemporaryFile() as log:
        os.write(log.fileno(), b"nats-dissect: of an earlier session\n")
        with lines_shown(log):
            os.write(
                log.fileno(),
                b"WARN Utils: nothing\n[Stage 0:>   ]\rnats-dissect: a.pcap came late\n",
            )
            os.write(log.fileno(), b"nats-dissect: b.pcap has grown\nnats-dissect: half a li")
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.splitlines() == [
            "nats-dissect: a.pcap came late",
            "nats-dissect: b.pcap has grown",
        ]
        path = Path(save_log(log))
        try:
            assert path.read_bytes() == log_bytes(log)
            assert log_bytes(log, len(b"nats-dissect: of an earlier session\n"))[:4] == b"WARN"
        finally:
            path.unlink()
