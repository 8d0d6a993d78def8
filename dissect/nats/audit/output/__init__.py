"""Findings -> text, JSON lines, SARIF, OCSF and ECS."""
