"""Chunks and gaps of a TCP connection -> NATS frames, whatever is lost, and whenever the capture began."""

from .conversation import Conversation
from .ledger import Ledger
from .opening import Verdict
from .rows import Payload, RowMaker
from .seeker import Budget
from .stream import Stream

__all__ = [
    "Budget",
    "Conversation",
    "Ledger",
    "Payload",
    "RowMaker",
    "Stream",
    "Verdict",
]
