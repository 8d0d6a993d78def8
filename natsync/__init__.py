"""A blocking NATS client for threaded programs."""

__version__ = "0.1.0"
