"""Records -> files, tables and terminals."""
