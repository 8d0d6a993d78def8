"""Exact splitting of captures, and of the work on them, among many tasks. Spark is not known here."""
