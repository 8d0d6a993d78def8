"""Divides captures, and the work on them, exactly into partitions for many tasks. Does not need Spark."""
