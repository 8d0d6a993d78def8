"""What the report and plots ask, and how: see `ask`."""

from .ask import Engine, Row, ask

__all__ = ["Engine", "Row", "ask"]
