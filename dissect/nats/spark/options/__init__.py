"""What a caller of Spark may set: arguments of the command, options of read, plan and the source."""
