"""The commands of `natsync`: what each does with a connection, with its options and arguments."""

from .program import program
from .reporting import Reporter

__all__ = ["Reporter", "program"]
