"""Aggregates -> figures of Plotly."""
