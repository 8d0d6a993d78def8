"""`nats-dissect archive`: fills an archive from folders of captures that grow, or from standard input.

Exit status: 0 done; 2 wrong usage, or the archive cannot be written; 3 done, but a capture was damaged or
could not be read; 130 interrupted; 143 terminated. However the process ends, the next run goes on.
"""

from __future__ import annotations

import signal
import sys
from contextlib import closing

from ..capture.sources import STDIN
from ..commands.signals import ends_input
from ..errors import DissectError
from ..output.arrow.types import leave_pandas_out
from ..output.sink import Fault, unwritable
from .archiving import Archiving
from .arguments import ARCHIVED, ArchiveOptions
from .folder import ArchiveFolder

_DAMAGED = 3


def archive(options: ArchiveOptions) -> None:
    """Fills an archive. Exits with status 3 unless everything was read."""
    if STDIN in options.captures and len(options.captures) > 1:
        raise Fault("standard input is the only source of an archive, or none")
    for name in options.tables:
        if name not in ARCHIVED:
            raise Fault(
                f"an archive has no table {name}: its rows compare all sessions, which an archive never"
                f" has; ask captures: nats-dissect {name} CAPTURE..."
            )
    try:
        leave_pandas_out()
        with closing(ArchiveFolder(options.out)) as folder:
            archiving = Archiving(options, folder)
            # What was read of standard input is committed; folders can be read again.
            with ends_input(options.live, signal.SIGTERM, signal.SIGHUP) as interrupted:
                archiving.run()
    except DissectError as error:
        raise Fault(str(error)) from None
    except OSError as error:
        raise unwritable(error.filename or options.out, error) from None
    if interrupted.yes:
        sys.exit(128 + interrupted.number)
    if archiving.is_damaged:
        sys.exit(_DAMAGED)
