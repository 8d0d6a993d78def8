"""`nats-dissect`, the console script: imports `dissect.nats` and runs it.

The import takes some tenths of a second. This module stands outside the package, so that an interrupt in that
time, too, ends with status 130 and without a traceback.
"""

from __future__ import annotations

import sys

_INTERRUPTED = 130


def main() -> None:
    """The console script."""
    try:
        from dissect.nats.__main__ import main as program

        program()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
