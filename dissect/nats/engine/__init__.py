"""Segments -> the records of the tables. The engine drives TCP, framing, sessions and application layers."""
