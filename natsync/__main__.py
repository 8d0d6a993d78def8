"""`natsync`, the console script, and `python -m natsync`.

The import of the command line takes some tenths of a second: an interrupt in that time, too, ends with status
130 and without a traceback.
"""

from __future__ import annotations

import sys

_INTERRUPTED = 130


def main() -> int:
    """Runs one command and returns its exit status."""
    try:
        from .cli import main as program

        return program()
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
