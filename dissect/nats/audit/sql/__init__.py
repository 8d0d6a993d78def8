"""Rules -> SQL over the tables, with the same result in DuckDB and in Spark SQL."""
