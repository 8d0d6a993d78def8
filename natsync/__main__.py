"""`python -m natsync` is the command `natsync`."""

import sys

from .cli import main

sys.exit(main())
