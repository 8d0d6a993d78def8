"""NATS Streaming: frames of a session -> rows of the table `streaming`."""
