"""Checks the Java runtime that Spark will use: it must exist and be new enough.

Spark takes `$JAVA_HOME/bin/java`, or else `java` from PATH. Spark 4 needs Java 17 or later
(https://spark.apache.org/docs/latest/).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from ...errors import SparkError

OLDEST = 17
REMEDY = (
    f"install a Java runtime, {OLDEST} or later (Debian and Ubuntu: apt-get install "
    f"openjdk-{OLDEST}-jre-headless; macOS: brew install openjdk@{OLDEST}), or name one with JAVA_HOME"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_PATIENCE = 30  # seconds; a cold disk takes a few


def check_java() -> None:
    """Raises SparkError unless Spark will find a Java that it can use."""
    home = os.environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not path:
        raise SparkError("Spark needs Java, and there is none", REMEDY)
    try:
        output = subprocess.run(
            [path, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE,
        ).stdout.decode(errors="replace")
    except FileNotFoundError:
        raise SparkError(f"JAVA_HOME is {home}, where there is no bin/java", REMEDY) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkError(f"{path} cannot be run ({type(error).__name__})", REMEDY) from None
    version = _VERSION.search(output)
    if not version:
        raise SparkError(f"{path} does not say which Java it is", REMEDY)
    if int(version[1]) < OLDEST:
        raise SparkError(f"{path} is Java {version[1]}, too old for Spark", REMEDY)
