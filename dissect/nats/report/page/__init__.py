"""Aggregates and figures -> one HTML page."""
