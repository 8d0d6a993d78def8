"""Aggregates -> Plotly figures."""
