"""What Spark needs before a job: Java, a master, and a Python for its workers."""
