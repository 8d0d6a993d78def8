"""The closed list of oddities: every way in which traffic or a capture can be strange, by one name.

A strange capture is data: stages report these, they never raise. The value of each member is the name
users see in the column `anomaly`, and the name that filters ask for; it does not change.

What is only counted has no name here: retransmissions and packets out of order are how TCP works.
Checksums are not looked at: a machine that records its own traffic sees them before the network card
fills them in.
"""

from __future__ import annotations

from enum import Enum


class Anomaly(Enum):
    """One kind of oddity."""

    # Reassembly
    LOST = "lost"
    """Bytes that were sent, but whose packets are not in the capture."""
    TRUNCATED = "truncated"
    """Bytes that the capture cut off: the snap length was shorter than the packet."""
    OVERLAP_DIFFERS = "overlap_differs"
    """A second copy of bytes says something else than the first; the first one counts."""
    DATA_AFTER_FIN = "data_after_fin"
    """Bytes behind the place where their sender had said that it was finished; left out."""
    DATA_BEFORE_START = "data_before_start"
    """Bytes from before the first byte of a stream that was joined midstream; too late to be used."""

    # NATS
    PROTOCOL_ERROR = "protocol_error"
    """Bytes at the place of a frame that are none; the text says why."""
    SKIPPED = "skipped"
    """Bytes that were jumped over to find the next place that is surely the start of a frame."""
    UNFINISHED = "unfinished"
    """A frame that had begun when its stream ended."""
    BAD_HEADERS = "bad_headers"
    """A header block that is none."""
    BAD_JSON = "bad_json"
    """An INFO or CONNECT whose JSON cannot be read."""
