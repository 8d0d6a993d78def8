"""`nats-dissect` and `python -m dissect.nats`: runs the command line, or prints which libraries to install.

`pip install natsync` installs the client alone; the extra `dissect` adds the libraries that the command line
needs.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

_EXTRA = "dissect"
_NEEDED = ("click", "dpkt", "rich")


def main() -> None:
    """Runs the program."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        from natsync._extras import pip_install

        names = ", ".join(missing)
        print(f"nats-dissect: not installed: {names}; {pip_install(_EXTRA)}", file=sys.stderr)
        sys.exit(2)
    from .cli import main as command_line

    command_line()


if __name__ == "__main__":
    # The console script ends quietly if it is interrupted while it imports.
    from dissect.nats_dissect import main as script

    script()
