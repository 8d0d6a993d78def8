"""Checks and sets up what Spark needs before a job: Java, a master, and a Python for its workers."""
