"""Java is there and new enough, or one line says what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.errors import SparkError
from dissect.nats.spark.launch.java import REMEDY, check_java


def fake(folder: Path, output: str) -> Path:
    """A `java` that says this on stderr, as the real one does."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_java_17_and_later_are_accepted(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake(tmp_path, f'openjdk version "{version}" 2025-04-15')
    monkeypatch.setenv("JAVA_HOME", str(home))
    check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(home / "bin"), prepend=":")
    check_java()


@pytest.mark.parametrize(
    "output, expected",
    [
        ('openjdk version "11.0.22" 2024-01-16', "is Java 11, too old for Spark"),
        ('java version "1.8.0_402"', "is Java 8, too old for Spark"),
        ("segmentation fault", "does not say which Java it is"),
    ],
)
def test_a_java_that_is_too_old_or_says_nothing_is_refused(
    output: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake(tmp_path, output)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(SparkError) as error:
        check_java()
    assert str(error.value) == f"{home}/bin/java {expected}; {REMEDY}"


def test_a_missing_java_is_refused_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        SparkError, match="where there is no bin/java; install a Java runtime, 17 or"
    ):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkError, match="Spark needs Java, and there is none; install"):
        check_java()


def test_one_that_cannot_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, "").joinpath("bin", "java").write_bytes(b"\x7fELF nothing")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkError, match=r"bin/java cannot be run \(OSError\)"):
        check_java()
