"""Engines that run the SQL of rules: DuckDB on one machine, Spark on many."""
