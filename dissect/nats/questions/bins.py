"""The widths of bins of time. Each divides the next one, and bins begin at multiples of their width since the
epoch, so that bins do not depend on when a capture begins. A figure takes the smallest width with which it
has at most `LIMIT` bins."""

from __future__ import annotations

LIMIT = 600
"""The most bins: more would be thinner than two pixels on most screens."""

_MS = 10**6
_SECOND = 10**9
_DAY = 86_400 * _SECOND
WIDTHS = (
    *(_MS * width for width in (1, 2, 10, 20, 100, 200)),
    *(_SECOND * width for width in (1, 2, 10, 20, 60, 120, 600, 1200, 3600, 7200, 21_600)),
    *(_DAY * 10**power for power in range(4)),
)
"""In ns. With the last one, `LIMIT` bins are longer than what 64 bits of ns can hold."""
