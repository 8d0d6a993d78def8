"""Frames of a session -> rows: the protocols that lie above NATS, one module each."""
