"""Chunks and gaps of a TCP connection -> NATS frames, whatever is lost, and whenever the capture began."""

from .conversation import Conversation, Verdict
from .ledger import Ledger
from .rows import Payload, RowMaker
from .seeker import Budget

__all__ = [
    "Budget",
    "Conversation",
    "Ledger",
    "Payload",
    "RowMaker",
    "Verdict",
]
