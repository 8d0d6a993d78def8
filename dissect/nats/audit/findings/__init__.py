"""Rows of the rules' queries -> findings, in order; suppressed ones carry the reason."""
