"""Rows -> the numbers of a report, in one pass and in memory that does not grow with the rows."""
