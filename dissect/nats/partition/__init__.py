"""Exact division of captures, and of the work on them, into partitions for many tasks. Nothing here needs
Spark."""
