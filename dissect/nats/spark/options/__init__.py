"""Checks the options that a caller of Spark sets: of the command, of `read` and `plan`, and of the source."""
