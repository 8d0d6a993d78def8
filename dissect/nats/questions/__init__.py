"""What the report and plots ask, and how: see `ask`."""

from .ask import AnswerRow, QueryEngine, ask

__all__ = ["QueryEngine", "AnswerRow", "ask"]
