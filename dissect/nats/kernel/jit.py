"""How functions of the kernel are compiled. Only modules of compiled functions import this one, and with it
`numba`.

Indexes are checked: whatever a packet says, a wrong index raises IndexError. With `NUMBA_DISABLE_JIT=1`, the
functions run as Python, which is slow, for debuggers and coverage. Stored machine code is used until the file
of its function changes: after a change in the file of a function that it calls, remove `__pycache__`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

_F = TypeVar("_F", bound=Callable[..., object])

Array = Any
"""An array of numpy, whose types a checker without numpy cannot know."""

Number = Any
"""A number of Python or numpy."""


def compiled(function: _F) -> _F:
    """Compiles a function when it is first called. The machine code is stored for the next process, beside
    this file or in the folder of numba for the user, unless neither can be written."""
    try:
        return cast(_F, numba.njit(cache=True, nogil=True, boundscheck=True)(function))
    except RuntimeError:
        return cast(_F, numba.njit(nogil=True, boundscheck=True)(function))
