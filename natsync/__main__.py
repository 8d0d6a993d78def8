"""`natsync`, the console script, and `python -m natsync`.

`pip install natsync` installs the client alone; the extra `cli` adds click, which the command line needs.

The import of the command line takes some tenths of a second: an interrupt in that time, too, ends with status
130 and without a traceback.
"""

from __future__ import annotations

import sys

_USAGE, _INTERRUPTED = 2, 130


def main() -> int:
    """Runs one command and returns its exit status."""
    try:
        from .cli import main as program

        return program()
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        from ._extras import pip_install

        print(f"natsync: not installed: click; {pip_install('cli')}", file=sys.stderr)
        return _USAGE
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
