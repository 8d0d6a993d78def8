"""Segments -> the records of the tables: drives TCP, framing and sessions."""
