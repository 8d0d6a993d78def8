"""Rows of the rules' queries -> findings, in order, without those that somebody has suppressed."""
