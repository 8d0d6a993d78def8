"""Frames of NATS Streaming -> the rows of `streaming`."""
