"""The commands of `natsync`: what each does with a connection, and its arguments."""

from .parser import make_parser
from .reporting import Reporter, opened

__all__ = ["Reporter", "make_parser", "opened"]
