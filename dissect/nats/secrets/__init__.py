"""Secrets that decrypt captures (key logs), and secrets in captures, which are masked."""
