"""The code that runs in Spark's tasks: the stages, and the functions that hand them batches."""
